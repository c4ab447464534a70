// Descriptors by id: those that a session's client has put on its link, and those that it may take.
#ifndef NNHAL_SERVER_DESCRIPTORS_H_
#define NNHAL_SERVER_DESCRIPTORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "nnhal/fd.h"

namespace nnhal {

using SharedFd = std::shared_ptr<const Fd>;

constexpr std::size_t kMostDescriptors = 256;  // of a session

// Ids are never used twice. All methods throw Failure.
class DescriptorTable {
 public:
  std::vector<std::uint64_t> put(std::vector<Fd> descriptors);
  SharedFd get(std::uint64_t number) const;
  // Returns descriptors that were put and forgets them, also those that are known if others are not.
  std::map<std::uint64_t, SharedFd> claim(const std::vector<std::uint64_t>& numbers);
  void drop(const std::vector<std::uint64_t>& numbers);
  // Keeps a descriptor until the client takes or drops it, or what `owner` is the handle of is released.
  std::uint64_t offer(Fd descriptor, std::int64_t owner);
  Fd take(std::uint64_t number);
  void withdraw(std::int64_t owner);
  void clear();
  std::size_t size() const;
  std::vector<SharedFd> all_put() const;

 private:
  struct Offer {
    Fd descriptor;
    std::int64_t owner;
  };

  void require_room(std::size_t count) const;

  mutable std::mutex guard_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, SharedFd> put_;
  std::map<std::uint64_t, Offer> offered_;
};

// Refuses descriptors that could keep a link open without anybody who uses it; see docs/link.md.
void require_usable(const std::vector<Fd>& descriptors);

// Remembers the client's end of a channel of this process, which is not to be put on a link; returns what to forget it by.
std::uint64_t remember_channel_end(const Fd& theirs);
void forget_channel_end(std::uint64_t cookie);

}  // namespace nnhal

#endif  // NNHAL_SERVER_DESCRIPTORS_H_
