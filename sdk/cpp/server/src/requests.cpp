#include "requests.h"

#include <algorithm>
#include <set>

#include "layout.h"

namespace nnhal {
namespace {

constexpr int kMostArguments = 65536;
constexpr int kMostPools = 4096;
constexpr int kMostHints = 1024;
constexpr std::int64_t kMostLoopTimeoutNs = 15'000'000'000;
constexpr std::int64_t kLoopTimeoutNs = 2'000'000'000;
constexpr std::size_t kLeastStagedAlignment = 64;  // for vector instructions
constexpr const char* kPriorityExtension = "nnhal.execution";

void at_most(int most, int count, const char* what) {
  if (count > most) invalid_argument(count, " ", what, ", expected at most ", most);
}

std::string said(const v1::DataLocation& at) {
  return text("pool ", at.pool_index(), ", offset ", at.offset(), ", length ", at.length(), ", padding ", at.padding());
}

bool is_nowhere(const v1::DataLocation& at) {
  return at.pool_index() == 0 && at.offset() == 0 && at.length() == 0 && at.padding() == 0;
}

// The pools of a request, as it describes them.
struct DescribedPools {
  std::vector<PoolSource> sources;
  std::vector<std::int64_t> tokens;  // 0 for shared memory, else that of a device buffer
};

DescribedPools described_pools(const v1::Request& request, const DescriptorTable& descriptors) {
  DescribedPools pools;
  for (int i = 0; i < request.pools_size(); i++) {
    const v1::RequestMemoryPool& pool = request.pools(i);
    const std::string place = text("pool ", i, " of the request");
    pools.sources.emplace_back();
    pools.tokens.push_back(pool.token());
    if (pool.has_pool()) {
      pools.sources.back() = described_pool(pool.pool(), descriptors, place);
    } else if (pool.kind_case() != v1::RequestMemoryPool::kToken) {
      invalid_argument(place, " has no kind, expected pool or token");
    } else if (pool.token() <= 0) {
      invalid_argument(place, " is the device token ", pool.token(), ", expected more than 0");
    }
  }
  return pools;
}

Dimensions combined_dimensions(const v1::Operand& operand, const v1::RequestArgument& argument, const std::string& place,
                               bool may_be_unknown) {
  const Dimensions given = layout::dimensions_of(argument.dimensions());
  if (given.size() > layout::kMostAxes) {
    invalid_argument(place, " has rank ", given.size(), ", expected at most ", layout::kMostAxes);
  }
  if (std::any_of(given.begin(), given.end(), [](std::int32_t each) { return each < 0; })) {
    invalid_argument(place, " has dimensions ", described(given), ", expected 0 or more for each axis");
  }
  if (layout::is_scalar(operand.type()) && !given.empty()) {
    invalid_argument(place, " is a scalar with dimensions ", described(given), ", expected none");
  }
  Dimensions combined = layout::dimensions_of(operand.dimensions());
  if (!layout::combine(combined, given)) {
    invalid_argument(place, " has dimensions ", described(given), ", the model says ", described(operand.dimensions()));
  }
  const bool is_known = layout::is_extension(operand.type()) || layout::is_known(operand.type(), combined);
  if (!is_known && !may_be_unknown) {
    invalid_argument(place, " has dimensions ", described(combined), ", expected all known");
  }
  return combined;
}

// Checks one argument and returns what model and request together say of its dimensions.
Dimensions checked_argument(const v1::Operand& operand, const v1::RequestArgument& argument, const DescribedPools& pools,
                            const std::string& place, bool may_be_unknown) {
  const v1::DataLocation& at = argument.location();
  if (argument.has_no_value()) {
    if (!is_nowhere(at) || argument.dimensions_size() != 0) {
      invalid_argument(place, " has no value but has location (", said(at), ") and dimensions ",
                       described(argument.dimensions()));
    }
    return layout::dimensions_of(operand.dimensions());
  }
  if (at.pool_index() < 0 || at.offset() < 0 || at.length() < 0 || at.padding() < 0) {
    invalid_argument(place, " has a negative number in its location (", said(at), ")");
  }
  if (at.pool_index() >= static_cast<int>(pools.sources.size())) {
    invalid_argument(place, " lies in pool ", at.pool_index(), ", but there are ", pools.sources.size(), " pools");
  }
  Dimensions dimensions = combined_dimensions(operand, argument, place, may_be_unknown);
  const PoolSource& source = pools.sources[at.pool_index()];
  if (pools.tokens[at.pool_index()] != 0 || source.kind == PoolKind::image) {
    if (at.offset() != 0 || at.length() != 0 || at.padding() != 0) {
      invalid_argument(place, " uses a pool as a whole, expected offset, length and padding 0");
    }
    return dimensions;
  }
  if (at.length() == 0) invalid_argument(place, " has length 0");
  std::int64_t end = 0;
  if (__builtin_add_overflow(at.offset(), at.length(), &end) || __builtin_add_overflow(end, at.padding(), &end)) {
    end = INT64_MAX;
  }
  if (end > source.size) {
    invalid_argument(place, " lies at bytes ", at.offset(), " to ", end, " of pool ", at.pool_index(), ", which has ",
                     source.size);
  }
  const std::int64_t bytes = layout::bytes_of(operand.type(), dimensions);
  if (bytes != 0 && at.length() != bytes) {
    invalid_argument(place, " has ", at.length(), " bytes, expected ", bytes, " for ", described(dimensions));
  }
  return dimensions;
}

// Binds the arguments of one request.
class Binding {
 public:
  Binding(Execution& execution, const v1::Request& request, const DescribedPools& pools, const PoolOpener& open)
      : execution_(execution), request_(request), pools_(pools), open_(open), opened_(pools.sources.size()) {}

  // Opens the pools that arguments lie in, each once: for writing if an output does.
  void open() {
    std::vector<bool> is_used(opened_.size()), is_written(opened_.size());
    for (const v1::RequestArgument& each : request_.inputs()) use(each, is_used);
    for (const v1::RequestArgument& each : request_.outputs()) use(each, is_written);
    for (std::size_t i = 0; i < opened_.size(); i++) {
      if (!is_used[i] && !is_written[i]) continue;
      if (pools_.tokens[i] != 0) {
        invalid_argument("device buffer ", pools_.tokens[i], " does not exist in this session, or was released");
      }
      opened_[i] = open_ != nullptr ? open_(static_cast<int>(i), pools_.sources[i], is_written[i])
                                    : Pool::open(pools_.sources[i], is_written[i]);
      execution_.pools.push_back(opened_[i]);
    }
  }

  // The memory of an argument: in place if that can be, else a copy. Null if it is omitted.
  void* place(const v1::RequestArgument& argument, std::vector<Staged>& staged) {
    if (argument.has_no_value()) return nullptr;
    const v1::DataLocation& at = argument.location();
    const std::shared_ptr<Pool>& pool = opened_[at.pool_index()];
    if (at.offset() + at.length() > pool->size()) {
      invalid_argument("an argument ends at byte ", at.offset() + at.length(),
                       " of its pool; the pool that is known under the same token has ", pool->size(), " bytes");
    }
    const std::size_t alignment = execution_.prepared->device.alignment;
    if (pool->data() != nullptr && reinterpret_cast<std::uintptr_t>(pool->data() + at.offset()) % alignment == 0) {
      return pool->data() + at.offset();
    }
    const std::size_t unit = std::max(alignment, kLeastStagedAlignment);
    const std::size_t room = (static_cast<std::size_t>(at.length()) + unit - 1) / unit * unit;
    void* data = std::aligned_alloc(unit, room);
    if (data == nullptr) exhausted("no memory for a copy of ", at.length(), " bytes");
    std::memset(data, 0, room);  // bytes that a run does not write reach the client too
    staged.push_back({pool, at.offset(), {static_cast<char*>(data), &std::free}, static_cast<std::size_t>(at.length())});
    return data;
  }

 private:
  static void use(const v1::RequestArgument& argument, std::vector<bool>& used) {
    if (!argument.has_no_value()) used[argument.location().pool_index()] = true;
  }

  Execution& execution_;
  const v1::Request& request_;
  const DescribedPools& pools_;
  const PoolOpener& open_;
  std::vector<std::shared_ptr<Pool>> opened_;
};

std::int64_t loop_timeout(const v1::ExecutionConfig& config) {
  const std::int64_t given = config.has_loop_timeout_duration_ns() ? config.loop_timeout_duration_ns() : kNoTime;
  if (given < kNoTime || given > kMostLoopTimeoutNs) {
    invalid_argument("loop timeout ", given, " ns, expected -1 to ", kMostLoopTimeoutNs);
  }
  return given == kNoTime ? kLoopTimeoutNs : given;
}

// The priority of an execution: its prepared model's, unless a hint of the extension nnhal.execution says another.
int priority_of(const v1::ExecutionConfig& config, int otherwise) {
  for (const v1::ExtensionNameAndPrefix& entry : config.extension_name_to_prefix()) {
    if (entry.name() != kPriorityExtension) continue;
    for (const v1::TokenValuePair& hint : config.execution_hints()) {
      if (hint.token() != entry.prefix() << 16) continue;
      std::uint32_t priority = UINT32_MAX;
      if (hint.value().size() == sizeof priority) std::memcpy(&priority, hint.value().data(), sizeof priority);
      if (priority > v1::PRIORITY_HIGH) {
        invalid_argument("the priority hint has ", hint.value().size(), " bytes, expected 4 bytes with 0 to 2, little-endian");
      }
      return static_cast<int>(priority);
    }
  }
  return otherwise;
}

}  // namespace

void validate_hints(const google::protobuf::RepeatedPtrField<v1::TokenValuePair>& hints,
                    const google::protobuf::RepeatedPtrField<v1::ExtensionNameAndPrefix>& names) {
  at_most(kMostHints, hints.size(), "hints");
  at_most(kMostHints, names.size(), "extensions");
  std::set<int> tokens, prefixes;
  for (const v1::ExtensionNameAndPrefix& entry : names) prefixes.insert(entry.prefix());
  for (const v1::TokenValuePair& hint : hints) {
    if (!tokens.insert(hint.token()).second) invalid_argument("hint tokens are not unique: ", hint.token());
    if (prefixes.count(hint.token() >> 16) == 0) {
      invalid_argument("hint ", hint.token(), " has prefix ", hint.token() >> 16, ", which is mapped to no extension");
    }
  }
}

std::shared_ptr<Execution> bound_execution(std::shared_ptr<PreparedModel> prepared, const v1::Request& request,
                                           const v1::ExecutionConfig& config, const DescriptorTable& descriptors,
                                           bool allow_unknown_outputs, const PoolOpener& open) {
  at_most(kMostArguments, request.inputs_size(), "inputs of the request");
  at_most(kMostArguments, request.outputs_size(), "outputs of the request");
  at_most(kMostPools, request.pools_size(), "pools of the request");
  const std::int64_t timeout = loop_timeout(config);
  validate_hints(config.execution_hints(), config.extension_name_to_prefix());
  const DescribedPools pools = described_pools(request, descriptors);
  const v1::Subgraph& main = prepared->model->main();
  if (request.inputs_size() != main.input_indexes_size()) {
    invalid_argument("the request has ", request.inputs_size(), " inputs, the model has ", main.input_indexes_size());
  }
  if (request.outputs_size() != main.output_indexes_size()) {
    invalid_argument("the request has ", request.outputs_size(), " outputs, the model has ", main.output_indexes_size());
  }
  const auto execution = std::make_shared<Execution>(prepared, config.measure_timing(), priority_of(config, prepared->priority));
  execution->loop_timeout_ns = timeout;
  execution->inputs.resize(request.inputs_size());
  execution->outputs.resize(request.outputs_size());
  for (int i = 0; i < request.inputs_size(); i++) {
    execution->inputs[i].dimensions = checked_argument(main.operands(main.input_indexes(i)), request.inputs(i), pools,
                                                       text("input ", i), false);
  }
  for (int i = 0; i < request.outputs_size(); i++) {
    execution->outputs[i].dimensions = checked_argument(main.operands(main.output_indexes(i)), request.outputs(i), pools,
                                                        text("output ", i), allow_unknown_outputs);
  }
  Binding binding(*execution, request, pools, open);
  binding.open();
  for (int i = 0; i < request.inputs_size(); i++) {
    execution->inputs[i].data = binding.place(request.inputs(i), execution->staged_inputs);
    execution->inputs[i].bytes = request.inputs(i).location().length();
  }
  for (int i = 0; i < request.outputs_size(); i++) {
    execution->outputs[i].data = binding.place(request.outputs(i), execution->staged_outputs);
    execution->outputs[i].bytes = request.outputs(i).location().length();
  }
  return execution;
}

}  // namespace nnhal
