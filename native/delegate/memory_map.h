// What this process has mapped, as /proc/self/maps says.
#ifndef NNHAL_TFLITE_MEMORY_MAP_H_
#define NNHAL_TFLITE_MEMORY_MAP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nnhal::tflite {

class MemoryMap {
 public:
  struct Region {
    std::uintptr_t begin, end;
    std::uint64_t offset;  // in the file
    std::uint64_t inode;   // 0 for memory without a file
    std::string path;
  };

  // Empty if the system does not tell.
  MemoryMap() { read(); }

  // The region that an address is in, if it may be read; else null.
  const Region* find(const void* address) const;
  // Whether all of these bytes may be read. What is mapped since the last look is seen too.
  bool has(const void* data, std::size_t size);

 private:
  void read();
  bool had(const void* data, std::size_t size) const;

  std::vector<Region> regions_;  // that may be read, ascending
};

}  // namespace nnhal::tflite

#endif  // NNHAL_TFLITE_MEMORY_MAP_H_
