// Memory of an application: its own, by a descriptor, or memory that is made for certain roles.
#ifndef NNHAL_NDK_MEMORY_H_
#define NNHAL_NDK_MEMORY_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "handles.h"
#include "model.h"
#include "nnhal/memory.h"
#include "session.h"

namespace nnhal::ndk {

class Compilation;

// ANeuralNetworksMemory.
class Memory : public Object {
 public:
  virtual ~Memory() = default;
  // Whether it is used whole, for its roles only.
  virtual bool has_roles() const = 0;
  // Copies all of it to another one of the same size.
  static void copy(Memory& source, Memory& destination);

 protected:
  // As an end of a copy.
  virtual Message end(PutDescriptors& descriptors) const = 0;
  virtual std::shared_ptr<Session> session() const { return nullptr; }
};

// A part of a file of the application: memory that it shares, or a regular file.
class FileMemory : public Memory {
 public:
  // `protection` is that of mmap(). Takes a duplicate of `descriptor`.
  FileMemory(std::size_t size, int protection, int descriptor, std::size_t offset);

  bool has_roles() const override { return false; }
  std::size_t size() const { return size_; }
  // BAD_DATA unless the range lies within.
  void require_range(std::size_t offset, std::size_t length) const;
  // The message that names it in a session.
  Message in(PutDescriptors& descriptors) const;

 protected:
  Message end(PutDescriptors& descriptors) const override { return client::of_host(in(descriptors)); }

 private:
  friend class Memory;
  Mapping mapped(Mapping::Access access) const;

  Fd file_;
  std::size_t size_;
  int protection_;
  std::size_t offset_;
};

// Memory that was made for roles: a device may own it.
class RoleMemory : public Memory {
 public:
  RoleMemory(std::shared_ptr<Session> session, client::AllocatedMemory memory, std::vector<client::MemoryRole> roles,
             Dimensions dimensions)
      : dimensions(std::move(dimensions)),
        session_(std::move(session)),
        memory_(std::move(memory)),
        roles_(std::move(roles)) {}
  ~RoleMemory() override;

  bool has_roles() const override { return true; }
  std::int64_t handle() const { return memory_.handle; }
  bool serves(const Compilation& compilation, bool is_output, std::uint32_t index) const;
  const Dimensions dimensions;
  // An execution that could not even begin has failed to write it: it holds no values, which the framework cannot know.
  void lose_values() { has_lost_values_ = true; }
  void have_values() { has_lost_values_ = false; }
  bool has_lost_values() const { return has_lost_values_; }

 protected:
  Message end(PutDescriptors&) const override { return client::allocated(memory_); }
  std::shared_ptr<Session> session() const override { return session_; }

 private:
  const std::shared_ptr<Session> session_;
  const client::AllocatedMemory memory_;
  const std::vector<client::MemoryRole> roles_;  // by the names of compilations, which it does not keep
  std::atomic<bool> has_lost_values_{false};
};

// ANeuralNetworksMemoryDesc: the roles of memory. A call that fails changes nothing.
class MemoryDescription : public Object {
 public:
  void add_role(std::shared_ptr<Compilation> compilation, bool is_output, std::uint32_t index, float frequency);
  void set_dimensions(Dimensions dimensions);
  void finish();
  std::shared_ptr<RoleMemory> create() const;

 private:
  struct Role {
    std::shared_ptr<Compilation> compilation;
    bool is_output;
    std::uint32_t index;
    float frequency;
  };
  void require_unfinished() const;
  Dimensions combined(const Dimensions& dimensions, const std::string& what) const;

  std::vector<Role> roles_;
  std::optional<client::Operand> operand_;
  Dimensions dimensions_;
  bool is_finished_ = false;
};

}  // namespace nnhal::ndk

#endif  // NNHAL_NDK_MEMORY_H_
