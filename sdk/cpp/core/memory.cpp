#include "nnhal/memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace nnhal {
namespace {

constexpr int kSealingAttempts = 16;

int seals_of(const Fd& file) {
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  return seals < 0 ? 0 : seals;  // a file that cannot be sealed
}

}  // namespace

Result<Fd> make_memfd(const std::string& name, std::size_t size) {
  if (size == 0) return Status(Code::kInvalidArgument, "shared memory of 0 bytes, expected more");
  Fd file(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return Status::of_errno("no shared memory", errno);
  if (::ftruncate(file.get(), static_cast<off_t>(size)) < 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
    return Status::of_errno("no shared memory of " + std::to_string(size) + " bytes", errno);
  return file;
}

Status seal_contents(const Fd& memfd) {
  // The kernel refuses it while something else holds a page, be it to reclaim or to move it, for which it waits some
  // tens of milliseconds.
  for (int attempt = 1; ::fcntl(memfd.get(), F_ADD_SEALS, F_SEAL_WRITE) < 0; ++attempt)
    if (errno != EBUSY || attempt == kSealingAttempts)
      return Status::of_errno("shared memory cannot be sealed against writing", errno);
  return {};
}

bool cannot_shrink(const Fd& file) {
  struct statfs system{};
  // Huge pages can be sealed too, but are refused: their mappings have other sizes, and may fail late with SIGBUS.
  return (seals_of(file) & F_SEAL_SHRINK) && ::fstatfs(file.get(), &system) == 0 && system.f_type == TMPFS_MAGIC;
}

bool cannot_change(const Fd& file) { return cannot_shrink(file) && (seals_of(file) & F_SEAL_WRITE); }

Status require_ashmem(const Fd& file, std::int64_t size, const std::string& place) {
  if (size <= 0)
    return {Code::kInvalidArgument, place + " is ashmem of " + std::to_string(size) + " bytes, expected more than 0"};
  if (!cannot_shrink(file))
    return {Code::kInvalidArgument, place +
                                        " is ashmem that is not a memfd sealed against shrinking (F_SEAL_SHRINK), "
                                        "of ordinary pages"};
  struct stat found{};
  if (::fstat(file.get(), &found) < 0) return Status::of_errno(place, errno);
  if (found.st_size < size)
    return {Code::kInvalidArgument, place + " needs " + std::to_string(size) + " bytes, but the file behind it has " +
                                        std::to_string(found.st_size)};
  return {};
}

Result<Mapping> Mapping::map(const Fd& file, std::size_t size, Access access, std::int64_t offset) {
  if (size == 0 || offset < 0)
    return Status(Code::kInvalidArgument, "a mapping of " + std::to_string(size) + " bytes from byte " +
                                              std::to_string(offset) + ", expected more than 0 from 0 or more");
  const auto skipped = static_cast<std::size_t>(offset % ::sysconf(_SC_PAGESIZE));
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const start = ::mmap(nullptr, skipped + size, protection, MAP_SHARED, file.get(),
                             static_cast<off_t>(offset - static_cast<std::int64_t>(skipped)));
  if (start == MAP_FAILED) {
    const bool is_sealed = errno == EPERM && access == Access::kReadWrite;
    return Status::of_errno(is_sealed ? "memory that is sealed against writing cannot be mapped for writing"
                                      : "memory of " + std::to_string(size) + " bytes cannot be mapped",
                            errno);
  }
  Mapping mapping;
  mapping.start_ = start;
  mapping.skipped_ = skipped;
  mapping.size_ = size;
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(start_, other.start_);
  std::swap(skipped_, other.skipped_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (start_) ::munmap(start_, skipped_ + size_);
}

Result<SharedMemory> SharedMemory::make(std::size_t size, const std::string& name) {
  Result<Fd> file = make_memfd(name, size);
  if (!file.ok()) return file.status();
  Result<Mapping> mapping = Mapping::map(*file, size, Mapping::Access::kReadWrite);
  if (!mapping.ok()) return mapping.status();
  return SharedMemory{std::move(*file), std::move(*mapping)};
}

}  // namespace nnhal
