#include "pools.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "failures.h"

namespace nnhal {
namespace {

constexpr std::int32_t kMagic = 0x4E4E4842, kVersion = 1;
constexpr int kInts = 10;
constexpr std::int32_t kBlob = 0x21;

std::atomic<std::int64_t> mapped_pools{0}, mapped_bytes{0};

void require_length(int fd, std::int64_t needed, const std::string& place) {
  struct stat status {};
  fstat(fd, &status);
  if (status.st_size < needed) {
    invalid_argument(place, " needs ", needed, " bytes, but the file behind it has ", status.st_size);
  }
}

PoolSource ashmem_from(const v1::Ashmem& memory, const DescriptorTable& descriptors, const std::string& place) {
  PoolSource source{PoolKind::ashmem, descriptors.get(memory.descriptor_id()), 0, memory.size(), true};
  require(require_ashmem(*source.fd, memory.size(), place));
  return source;
}

PoolSource file_from(const v1::MappableFile& memory, const DescriptorTable& descriptors, const std::string& place) {
  PoolSource source{PoolKind::file, descriptors.get(memory.descriptor_id()), memory.offset(), memory.length(),
                    (memory.prot() & PROT_WRITE) != 0};
  if (memory.length() <= 0 || memory.offset() < 0) {
    invalid_argument(place, " is ", memory.length(), " bytes of a file from byte ", memory.offset(),
                     ", expected a length above 0 and an offset of 0 or more");
  }
  if ((memory.prot() & ~(PROT_READ | PROT_WRITE)) != 0 || (memory.prot() & PROT_READ) == 0) {
    invalid_argument(place, " is a file with protection ", memory.prot(),
                     ", expected PROT_READ, optionally with PROT_WRITE");
  }
  struct stat status {};
  fstat(source.fd->get(), &status);
  if (!S_ISREG(status.st_mode)) invalid_argument(place, " is not a regular file");
  std::int64_t end = 0;
  if (__builtin_add_overflow(memory.offset(), memory.length(), &end)) end = INT64_MAX;
  require_length(source.fd->get(), end, place);
  return source;
}

int pixel_bytes(std::int32_t format) {
  switch (format) {
    case 1: case 2: return 4;
    case 3: return 3;
    case 4: return 2;
    case 0x16: return 8;
    case kBlob: return 1;
    default: return 0;
  }
}

PoolSource buffer_from(const v1::NativeHandle& handle, const DescriptorTable& descriptors, const std::string& place) {
  const auto refuse = [&place](const auto&... parts) {
    invalid_argument(place, " is an invalid hardware buffer: ", parts...);
  };
  const auto& ints = handle.ints();
  if (handle.descriptor_ids_size() != 1 || ints.size() != kInts) {
    refuse("its handle has ", handle.descriptor_ids_size(), " descriptors and ", ints.size(), " integers, expected 1 and ",
           kInts);
  }
  if (ints[0] != kMagic || ints[1] != kVersion || ints[9] != 0) {
    refuse("its handle has magic ", ints[0], ", version ", ints[1], " and ", ints[9], " reserved bytes, expected ", kMagic,
           ", ", kVersion, " and 0");
  }
  const std::int64_t width = ints[2], height = ints[3], layers = ints[4], stride = ints[8];
  const std::int32_t format = ints[5];
  if (pixel_bytes(format) == 0) refuse("its format is ", format, ", expected one of 1, 2, 3, 4, 22 and 33");
  if (width < 1 || height < 1 || layers < 1 || stride < width) {
    refuse("it has ", width, " x ", height, " pixels, ", layers, " layers and stride ", stride,
           ", expected all above 0 and a stride of at least the width");
  }
  if (format == kBlob && (height != 1 || layers != 1 || stride != width)) {
    refuse("its BLOB has height ", height, ", ", layers, " layers and stride ", stride, ", expected 1, 1 and its width ",
           width);
  }
  PoolSource source{format == kBlob ? PoolKind::blob : PoolKind::image, descriptors.get(handle.descriptor_ids(0)), 0,
                    format == kBlob ? width : 0, true};
  if (!cannot_shrink(*source.fd)) refuse("its memory is not sealed against shrinking");
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(stride, height, &bytes) || __builtin_mul_overflow(bytes, layers, &bytes) ||
      __builtin_mul_overflow(bytes, pixel_bytes(format), &bytes)) {
    bytes = INT64_MAX;
  }
  struct stat status {};
  fstat(source.fd->get(), &status);
  if (status.st_size < bytes) refuse("its memory has ", status.st_size, " bytes, expected at least ", bytes);
  return source;
}

}  // namespace

const char* name_of(PoolKind kind) {
  constexpr const char* kNames[] = {"ashmem", "mmap_fd", "hardware_buffer_blob", "hardware_buffer"};
  return kNames[static_cast<int>(kind)];
}

PoolSource described_pool(const v1::Memory& memory, const DescriptorTable& descriptors, const std::string& place) {
  switch (memory.kind_case()) {
    case v1::Memory::kAshmem: return ashmem_from(memory.ashmem(), descriptors, place);
    case v1::Memory::kMappableFile: return file_from(memory.mappable_file(), descriptors, place);
    case v1::Memory::kHardwareBuffer: return buffer_from(memory.hardware_buffer().handle(), descriptors, place);
    default: invalid_argument(place, " has no kind, expected ashmem, mappable_file or hardware_buffer");
  }
}

std::shared_ptr<Pool> Pool::open(const PoolSource& source, bool writable) {
  if (source.kind == PoolKind::image) {
    general_failure("a hardware buffer that is an image cannot be mapped, expected format BLOB");
  }
  if (writable && !source.may_be_written) {
    general_failure("a file pool with protection PROT_READ cannot be opened for writing");
  }
  const std::shared_ptr<Pool> pool(new Pool(source, writable));
  if (source.kind == PoolKind::file && !cannot_shrink(*source.fd)) return pool;
  const auto access = writable ? Mapping::Access::kReadWrite : Mapping::Access::kRead;
  Result<Mapping> mapping = Mapping::map(*source.fd, source.size, access, source.offset);
  if (!mapping.ok()) throw Failure(mapping.status().in("a pool cannot be mapped"));
  pool->mapping_ = std::move(*mapping);
  pool->data_ = reinterpret_cast<char*>(pool->mapping_.data());
  mapped_pools++;
  mapped_bytes += source.size;
  return pool;
}

Pool::~Pool() {
  if (data_ == nullptr) return;
  mapped_pools--;
  mapped_bytes -= source_.size;
}

void Pool::read(std::int64_t offset, void* into, std::size_t size) const {
  if (data_ != nullptr) {
    std::memcpy(into, data_ + offset, size);
    return;
  }
  for (std::size_t done = 0; done < size;) {
    const ssize_t got =
        pread(source_.fd->get(), static_cast<char*>(into) + done, size - done, source_.offset + offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) general_failure("a file pool cannot be read: ", std::strerror(errno));
    if (got == 0) {
      general_failure("a file pool has been truncated: ", done, " of ", size, " bytes at offset ", offset, " are left");
    }
    done += got;
  }
}

void Pool::write(std::int64_t offset, const void* from, std::size_t size) const {
  if (data_ != nullptr) {
    std::memcpy(data_ + offset, from, size);
    return;
  }
  struct stat status {};
  if (fstat(source_.fd->get(), &status) != 0 ||
      status.st_size < source_.offset + offset + static_cast<std::int64_t>(size)) {
    general_failure("a file pool has been truncated: not all of the ", size, " bytes at offset ", offset, " are left");
  }
  for (std::size_t done = 0; done < size;) {
    const ssize_t put =
        pwrite(source_.fd->get(), static_cast<const char*>(from) + done, size - done, source_.offset + offset + done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) general_failure("a file pool cannot be written: ", std::strerror(errno));
    done += put;
  }
}

void Pool::count(std::int64_t& mappings, std::int64_t& bytes) {
  mappings = mapped_pools;
  bytes = mapped_bytes;
}

}  // namespace nnhal
