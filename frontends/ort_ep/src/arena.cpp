#include "arena.h"

#include <fcntl.h>
#include <linux/falloc.h>

#include <algorithm>
#include <cstdlib>

#include "calls.h"
#include "nnhal/client/session.h"

namespace nnhal::ort_ep {
namespace {

constexpr std::size_t kAlignment = 128;  // what every device of nnhal imports at; the HAL recommends 64
constexpr std::size_t kPage = 4096;

}  // namespace

Arena::Arena(const OrtMemoryInfo* info)
    : OrtAllocator{},
      info_(info),
      memory_(ort_ep::take(SharedMemory::make(kBytes, "nnhal-ort-arena"))),
      forks_(client::forks()),
      free_{{0, kBytes}} {
  version = kApiVersion;
  Alloc = [](OrtAllocator* self, std::size_t size) { return static_cast<Arena*>(self)->take(size); };
  Reserve = Alloc;
  Free = [](OrtAllocator* self, void* data) { static_cast<Arena*>(self)->give(data); };
  Info = [](const OrtAllocator* self) { return static_cast<const Arena*>(self)->info_; };
}

std::int64_t Arena::offset_of(const void* data, std::size_t size) const {
  const auto* const begin = static_cast<const std::uint8_t*>(data);
  if (!holds(begin) || begin + size > memory_.data() + kBytes || client::forks() != forks_) return -1;
  return begin - memory_.data();
}

bool Arena::holds(const void* data) const {
  const auto* const begin = static_cast<const std::uint8_t*>(data);
  return begin >= memory_.data() && begin < memory_.data() + kBytes;
}

void* Arena::take(std::size_t size) {
  size = std::max(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(free_.begin(), free_.end(), [&](const auto& range) { return range.second >= size; });
  // What does not lie in the memfd is copied at each run.
  if (found == free_.end() || client::forks() != forks_) return std::aligned_alloc(kAlignment, size);
  const auto [offset, room] = *found;
  free_.erase(found);
  if (room > size) free_.emplace(offset + size, room - size);
  used_.emplace(offset, size);
  return memory_.data() + offset;
}

void Arena::give(void* data) {
  if (!holds(data)) {
    std::free(data);
    return;
  }
  if (client::forks() != forks_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto used = used_.find(static_cast<std::size_t>(static_cast<std::uint8_t*>(data) - memory_.data()));
  if (used == used_.end()) return;
  const auto [used_offset, used_size] = *used;
  std::size_t offset = used_offset, size = used_size;
  used_.erase(used);
  auto next = free_.lower_bound(offset);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      free_.erase(before);
    }
  }
  if (next != free_.end() && next->first == offset + size) {
    size += next->second;
    free_.erase(next);
  }
  free_.emplace(offset, size);
  // Whole pages that it lay in go back to the system, if nothing else lies in them.
  const std::size_t page = used_offset / kPage * kPage, end = (used_offset + used_size + kPage - 1) / kPage * kPage;
  const std::size_t from = std::max(page, (offset + kPage - 1) / kPage * kPage);
  const std::size_t to = std::min(end, (offset + size) / kPage * kPage);
  if (from < to)
    (void)::fallocate(file().get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                      static_cast<off_t>(to - from));
}

}  // namespace nnhal::ort_ep
