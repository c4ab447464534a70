#pragma once
#include <stdlib.h>
#include <unistd.h>
#include <string>

#include "macros.h"
struct TemporaryFile {
  TemporaryFile() : fd(::mkstemp(path)) {}
  int release() { return ::dup(fd); }
  ~TemporaryFile() {
    ::close(fd);
    ::unlink(path);
  }
  char path[32] = "/tmp/nnhal-aosp-XXXXXX";
  int fd;
};
struct TemporaryDir {
  TemporaryDir() { ::mkdtemp(path); }
  ~TemporaryDir() { ::rmdir(path); }
  char path[32] = "/tmp/nnhal-aosp-XXXXXX";
};
