// Threads of the server: each ends by itself, and the process waits for all of them before it ends.
#ifndef NNHAL_SERVER_THREADS_H_
#define NNHAL_SERVER_THREADS_H_

#include <chrono>
#include <functional>
#include <string>

namespace nnhal::threads {

// Runs work in a thread of its own. Throws RESOURCE_EXHAUSTED_TRANSIENT, for `what`, if there can be none.
void start(const std::string& what, std::function<void()> work);

// Runs work in a thread that has done other work before, if one is idle: launches are too short for a new one each.
void lend(const std::string& what, std::function<void()> work);

// Waits until all threads have ended; returns whether they have in time.
bool await_end(std::chrono::milliseconds time);

}  // namespace nnhal::threads

#endif  // NNHAL_SERVER_THREADS_H_
