#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "compilation.h"

namespace nnhal::ndk {
namespace {

constexpr int kProtection = PROT_READ | PROT_WRITE;

}  // namespace

void Memory::copy(Memory& source, Memory& destination) {
  if (&source == &destination) return;
  const auto* lost = dynamic_cast<const RoleMemory*>(&source);
  if (lost && lost->has_lost_values()) bad_data("memory that holds no values");
  const std::shared_ptr<Session> of_source = source.session(), of_destination = destination.session();
  if (of_source && of_destination && of_source != of_destination) bad_data("memory of two sessions");
  const std::shared_ptr<Session> session = of_source ? of_source : of_destination;
  if (!session) {
    const auto& from = dynamic_cast<const FileMemory&>(source);
    const auto& to = dynamic_cast<const FileMemory&>(destination);
    if (from.size() != to.size())
      bad_data("a source of " + std::to_string(from.size()) + " bytes and a destination of " +
               std::to_string(to.size()) + ", expected as many");
    const Mapping read = from.mapped(Mapping::Access::kRead), written = to.mapped(Mapping::Access::kReadWrite);
    std::memcpy(written.data(), read.data(), read.size());
    return;
  }
  PutDescriptors descriptors(session);
  require(session->framework().copy(source.end(descriptors), destination.end(descriptors)));
  if (auto* filled = dynamic_cast<RoleMemory*>(&destination)) filled->have_values();
}

FileMemory::FileMemory(std::size_t size, int protection, int descriptor, std::size_t offset)
    : size_(size), protection_(protection), offset_(offset) {
  if (descriptor < 0) refuse(kUnexpectedNull, "descriptor " + std::to_string(descriptor));
  if (!size) bad_data("memory of no bytes");
  if (protection & ~kProtection) bad_data("protection " + std::to_string(protection));
  file_.reset(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!file_) bad_data(std::string("the descriptor of memory: ") + std::strerror(errno));
}

void FileMemory::require_range(std::size_t offset, std::size_t length) const {
  if (offset > size_ || length > size_ - offset)
    bad_data(std::to_string(length) + " bytes from " + std::to_string(offset) + " of memory of " +
             std::to_string(size_));
}

Message FileMemory::in(PutDescriptors& descriptors) const {
  return client::mappable_file(descriptors.put(file_), static_cast<std::int64_t>(size_), protection_,
                               static_cast<std::int64_t>(offset_));
}

Mapping FileMemory::mapped(Mapping::Access access) const {
  return required(Mapping::map(file_, size_, access, static_cast<std::int64_t>(offset_)));
}

RoleMemory::~RoleMemory() {
  if (!session_->has_ended()) (void)session_->framework().free(memory_);
}

bool RoleMemory::serves(const Compilation& compilation, bool is_output, std::uint32_t index) const {
  if (compilation.session() != session_) return false;
  return std::any_of(roles_.begin(), roles_.end(), [&](const client::MemoryRole& role) {
    return role.model == compilation.name() && role.is_output == is_output &&
           role.index == static_cast<std::int32_t>(index);
  });
}

void MemoryDescription::add_role(std::shared_ptr<Compilation> compilation, bool is_output, std::uint32_t index,
                                 float frequency) {
  require_unfinished();
  const std::string name = (is_output ? "output " : "input ") + std::to_string(index);
  if (!compilation->is_ready()) bad_data(name + " of a compilation that is not finished, or has failed");
  const Model& model = compilation->model();
  const std::size_t count = is_output ? model.outputs() : model.inputs();
  if (index >= count) bad_data("a role of " + name + ", the model has " + std::to_string(count));
  if (!(frequency > 0 && frequency <= 1)) bad_data(name + " with frequency " + std::to_string(frequency) + ", expected above 0 and at most 1");
  for (const Role& role : roles_)
    if (role.compilation == compilation && role.is_output == is_output && role.index == index)
      bad_data(name + " of the same compilation is given twice");
  const client::Operand& operand = is_output ? model.output(index) : model.input(index);
  if (operand_ && (operand.type != operand_->type || operand.scale != operand_->scale ||
                   operand.zero_point != operand_->zero_point || operand.scales != operand_->scales ||
                   operand.channel_dim != operand_->channel_dim))
    bad_data(name + " has another type or quantisation than another role");
  if (is_scalar(operand.type) && !dimensions_.empty())
    bad_data("dimensions " + describe(dimensions_) + " for memory of a scalar");
  Dimensions dimensions = combined(operand.dimensions, name + " has");
  roles_.push_back({std::move(compilation), is_output, index, frequency});
  dimensions_ = std::move(dimensions);
  if (!operand_) operand_ = operand;
}

void MemoryDescription::set_dimensions(Dimensions dimensions) {
  require_unfinished();
  if (operand_ && is_scalar(operand_->type) && !dimensions.empty())
    bad_data("dimensions " + describe(dimensions) + " for memory of a scalar");
  dimensions_ = combined(dimensions, "the dimensions are");
}

void MemoryDescription::finish() {
  require_unfinished();
  if (roles_.empty()) bad_data("memory without a role, expected at least one");
  is_finished_ = true;
}

std::shared_ptr<RoleMemory> MemoryDescription::create() const {
  if (!is_finished_) bad_state("the description of the memory is not finished");
  const std::shared_ptr<Session>& session = roles_.front().compilation->session();
  std::vector<client::MemoryRole> all, loaded;
  for (const Role& role : roles_) {
    if (role.compilation->session() != session) bad_data("roles of compilations of several sessions, expected one");
    all.push_back({role.compilation->name(), role.is_output, static_cast<std::int32_t>(role.index), role.frequency});
    if (role.compilation->is_sound()) loaded.push_back(all.back());  // another is not loaded, and never runs
  }
  if (loaded.empty()) refuse(kOpFailed, "no compilation can use the memory");
  return std::make_shared<RoleMemory>(session, required(session->framework().allocate(loaded, dimensions_)),
                                      std::move(all), dimensions_);
}

void MemoryDescription::require_unfinished() const {
  if (is_finished_) bad_state("the description of the memory is finished already");
}

Dimensions MemoryDescription::combined(const Dimensions& dimensions, const std::string& what) const {
  std::optional<Dimensions> both = combine(dimensions_, dimensions);
  if (!both) bad_data(what + " " + describe(dimensions) + ", the memory's so far are " + describe(dimensions_));
  return *std::move(both);
}

}  // namespace nnhal::ndk
