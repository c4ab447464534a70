// Shared memory: sealed memfds, what another process's memory is checked for, and mappings.
#ifndef NNHAL_MEMORY_H_
#define NNHAL_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "fd.h"
#include "status.h"

namespace nnhal {

// A memfd of `size` bytes, above 0, that nobody can shorten or lengthen.
Result<Fd> make_memfd(const std::string& name, std::size_t size);

// Adds F_SEAL_WRITE: the contents stay as they are. Fails as long as the memory is mapped for writing anywhere.
Status seal_contents(const Fd& memfd);

// Whether it is a memfd of ordinary pages that is sealed against shrinking: then mapping it is safe.
bool cannot_shrink(const Fd& file);

// Whether it is sealed against writing as well: a mapping for writing would be refused with EPERM.
bool cannot_change(const Fd& file);

// Checks memory that another process has handed over as ashmem of `size` bytes: above 0, sealed against shrinking, and
// as long as it says. INVALID_ARGUMENT says what is wrong of `place`, such as "pool 0".
Status require_ashmem(const Fd& file, std::int64_t size, const std::string& place);

// Memory that is mapped, and unmapped with its owner.
class Mapping {
 public:
  enum class Access {
    kRead,       // constants, and pools of inputs only: also memory that is sealed against writing
    kReadWrite,  // fails for memory that is sealed against writing
  };

  // Maps `size` bytes from `offset` on, which need not be a multiple of the page size. Only what cannot_shrink is safe
  // to use: other memory may be shortened while it is mapped, and a read beyond its end raises SIGBUS.
  static Result<Mapping> map(const Fd& file, std::size_t size, Access access, std::int64_t offset = 0);

  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  std::uint8_t* data() const { return static_cast<std::uint8_t*>(start_) + skipped_; }
  std::size_t size() const { return size_; }

 private:
  void* start_ = nullptr;    // at a page
  std::size_t skipped_ = 0;  // bytes between that and the first one that was asked for
  std::size_t size_ = 0;
};

// Memory of this process's own that it shares: a sealed memfd, mapped for reading and writing.
struct SharedMemory {
  Fd file;
  Mapping mapping;

  static Result<SharedMemory> make(std::size_t size, const std::string& name = "nnhal");
  std::uint8_t* data() const { return mapping.data(); }
  std::size_t size() const { return mapping.size(); }
};

}  // namespace nnhal

#endif  // NNHAL_MEMORY_H_
