// Pools: memory that a client shares, checked against the file behind it, then mapped, or read and written if that is safer.
//
// Memory that cannot shrink is mapped: sealed memfds and BLOB buffers. A file that its owner may truncate is never mapped, since
// an access to the mapping would then kill the process: it is copied before and after each run.
#ifndef NNHAL_SERVER_POOLS_H_
#define NNHAL_SERVER_POOLS_H_

#include <string>

#include "descriptors.h"
#include "nnhal/device.h"
#include "nnhal/memory.h"
#include "nnhal/v1/memory.pb.h"

namespace nnhal {

enum class PoolKind { ashmem, file, blob, image };

// A pool whose description is valid.
struct PoolSource {
  PoolKind kind = PoolKind::ashmem;
  SharedFd fd;
  std::int64_t offset = 0;
  std::int64_t size = 0;  // 0 for an image
  bool may_be_written = true;
};

// Checks a pool, which messages call `place`. Throws INVALID_ARGUMENT.
PoolSource described_pool(const v1::Memory& memory, const DescriptorTable& descriptors, const std::string& place);

const char* name_of(PoolKind kind);

// A pool in use. It stays as long as somebody refers to it, also if the client drops its descriptor.
class Pool {
 public:
  // Throws GENERAL_FAILURE if it cannot be mapped, or not be written as asked.
  static std::shared_ptr<Pool> open(const PoolSource& source, bool writable);
  ~Pool();

  PoolKind kind() const { return source_.kind; }
  std::int64_t size() const { return source_.size; }
  bool writable() const { return writable_; }
  int fd() const { return source_.fd->get(); }
  // Null if it is not mapped.
  char* data() const { return data_; }
  // Throw GENERAL_FAILURE if the file was truncated.
  void read(std::int64_t offset, void* into, std::size_t size) const;
  void write(std::int64_t offset, const void* from, std::size_t size) const;

  // How many are mapped in this process, and their bytes.
  static void count(std::int64_t& mappings, std::int64_t& bytes);

 private:
  Pool(const PoolSource& source, bool writable) : source_(source), writable_(writable) {}

  const PoolSource source_;
  const bool writable_;
  Mapping mapping_;
  char* data_ = nullptr;
};

}  // namespace nnhal

#endif  // NNHAL_SERVER_POOLS_H_
