#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
inline int ASharedMemory_create(const char* name, size_t size) {
  const int fd = ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd >= 0 && ::ftruncate(fd, static_cast<off_t>(size)) == 0) return fd;
  return -1;
}
inline size_t ASharedMemory_getSize(int fd) { return static_cast<size_t>(::lseek(fd, 0, SEEK_END)); }
inline int ASharedMemory_setProt(int, int) { return 0; }
