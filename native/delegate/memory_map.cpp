#include "memory_map.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>

namespace nnhal::tflite {

void MemoryMap::read() {
  regions_.clear();
  std::ifstream lines("/proc/self/maps");
  for (std::string line; std::getline(lines, line);) {
    Region region{};
    char permissions[5] = "";
    int path = 0;
    const int found = std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %*s %" SCNu64 " %n",
                                  &region.begin, &region.end, permissions, &region.offset, &region.inode, &path);
    if (found != 5 || permissions[0] != 'r') continue;
    region.path = line.substr(static_cast<std::size_t>(path));
    regions_.push_back(std::move(region));
  }
}

const MemoryMap::Region* MemoryMap::find(const void* address) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto after = std::upper_bound(regions_.begin(), regions_.end(), at,
                                      [](std::uintptr_t one, const Region& region) { return one < region.begin; });
  if (after == regions_.begin() || std::prev(after)->end <= at) return nullptr;
  return &*std::prev(after);
}

bool MemoryMap::has(const void* data, std::size_t size) {
  if (had(data, size)) return true;
  read();
  return had(data, size);
}

bool MemoryMap::had(const void* data, std::size_t size) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  if (!begin || begin + size < begin) return false;
  for (std::uintptr_t at = begin; at < begin + size;) {
    const Region* const region = find(reinterpret_cast<const void*>(at));
    if (!region) return false;
    at = region->end;
  }
  return true;
}

}  // namespace nnhal::tflite
