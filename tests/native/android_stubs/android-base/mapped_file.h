#pragma once
#include <sys/mman.h>
#include <memory>

#include "unique_fd.h"
namespace android::base {
struct MappedFile {
  static std::unique_ptr<MappedFile> FromFd(int fd, long offset, size_t size, int protection) {
    void* start = ::mmap(nullptr, size, protection, MAP_SHARED, fd, offset);
    return start == MAP_FAILED ? nullptr : std::unique_ptr<MappedFile>(new MappedFile{static_cast<char*>(start), size});
  }
  ~MappedFile() { ::munmap(start, length); }
  char* data() const { return start; }
  size_t size() const { return length; }
  char* start;
  size_t length;
};
}  // namespace android::base
