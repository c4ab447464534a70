// Memory that devices can map: an allocator of ONNX Runtime over one memfd.
#ifndef NNHAL_ORT_EP_ARENA_H_
#define NNHAL_ORT_EP_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "nnhal/memory.h"
#include "onnxruntime.h"

namespace nnhal::ort_ep {

// Tensors that an application allocates in it are inputs and outputs of models in place. The memfd is sparse: only what
// is in use takes memory. A forked process shares it with its parent, so that it allocates elsewhere. Safe to use from
// several threads.
class Arena : public OrtAllocator {
 public:
  static constexpr std::size_t kBytes = std::size_t{4} << 30;

  // Throws Failure without memory.
  explicit Arena(const OrtMemoryInfo* info);

  const Fd& file() const { return memory_.file; }
  // Where `size` bytes at `data` lie in the memfd, or -1 if they do not.
  std::int64_t offset_of(const void* data, std::size_t size) const;

 private:
  bool holds(const void* data) const;
  void* take(std::size_t size);
  void give(void* data);

  const OrtMemoryInfo* const info_;
  const SharedMemory memory_;
  const unsigned forks_;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_, used_;  // sizes by offset; neighbours that are free are one
};

}  // namespace nnhal::ort_ep

#endif  // NNHAL_ORT_EP_ARENA_H_
