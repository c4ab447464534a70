// The log: lines on standard error in the form of nnhal's other processes, of which the last ones are kept for operators.
#ifndef NNHAL_SERVER_LOG_H_
#define NNHAL_SERVER_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "failures.h"

namespace nnhal::logs {

enum class Level { debug, info, warning, error };

struct Line {
  std::int64_t number;
  std::int64_t at_ns;  // since the epoch
  Level level;
  std::string text;
};

const char* name_of(Level level);
// Returns false if there is no such level.
bool level_from(const std::string& name, Level& level);

// Says which process the lines are of. Call it once, before there are threads.
void name_process(const std::string& name);
void show_from(Level level);
Level shown_from();

void write(Level level, const std::string& line);

template <class... Parts>
void info(const Parts&... parts) {
  write(Level::info, text(parts...));
}
template <class... Parts>
void warning(const Parts&... parts) {
  write(Level::warning, text(parts...));
}
template <class... Parts>
void error(const Parts&... parts) {
  write(Level::error, text(parts...));
}

// The newest lines after the one of a number, in their order; `last` becomes the number of the last line of all.
std::vector<Line> lines_after(std::int64_t number, std::size_t most, std::int64_t& last);

}  // namespace nnhal::logs

#endif  // NNHAL_SERVER_LOG_H_
