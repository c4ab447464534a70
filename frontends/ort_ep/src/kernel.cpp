#include "kernel.h"

#include <algorithm>
#include <optional>

#include "calls.h"

namespace nnhal::ort_ep {

using client::count_of, client::not_empty, client::words;

namespace {

constexpr std::size_t kGuess = 4096;      // bytes for an output of which nothing is known
constexpr std::size_t kMaxIdle = 32;      // bindings that are kept for certain dimensions
constexpr std::size_t kMaxVariants = 32;  // combinations of dimensions
constexpr int kAttempts = 3;              // for a run that a framework's end has cut off
constexpr std::int64_t kDetourNs =
    100'000'000;  // how long runs go through the framework until they may be direct again

using Dimensions = std::vector<std::int64_t>;

Dimensions dimensions_of(const OrtValue* value) {
  auto* const info = read<OrtTensorTypeAndShapeInfo*>(ort().GetTensorTypeAndShape, value);
  Dimensions dimensions(read<std::size_t>(ort().GetDimensionsCount, info));
  OrtStatus* const status = ort().GetDimensions(info, dimensions.data(), dimensions.size());
  ort().ReleaseTensorTypeAndShapeInfo(info);
  check(status);
  return dimensions;
}

std::vector<Tensor> tensors_of(const std::vector<client::TensorInfo>& infos, const std::vector<std::string>& names) {
  std::vector<Tensor> tensors;
  for (const client::TensorInfo& info : infos) {
    Tensor& tensor = tensors.emplace_back();
    tensor.name = info.name;
    const auto found = std::find(names.begin(), names.end(), info.name);
    if (found != names.end()) tensor.place = static_cast<int>(found - names.begin());
    tensor.element = client::element_named(info.element_type);
    tensor.stored = client::stored_element(info.type, tensor.element);
    if (!client::bytes_of(tensor.element) || !client::bytes_of(tensor.stored))
      throw Failure("'" + info.name + "' has elements of type '" + info.element_type + "', which runs cannot pass on");
    tensor.is_scalar = info.is_scalar;
    tensor.dimensions.assign(info.dimensions.begin(), info.dimensions.end());
    tensor.is_open = info.byte_size == 0;
  }
  return tensors;
}

}  // namespace

// One run on its way.
struct Kernel::Run {
  OrtKernelContext* context;
  std::shared_ptr<Variant> variant;
  std::vector<const void*> from;  // of inputs
  std::vector<void*> to;          // of outputs; null if it is not allocated yet, or if nobody wants it
  std::vector<std::int64_t> key;  // as that of a slot

  void* allocate(std::size_t index, const Tensor& tensor, const Dimensions& dimensions) {
    if (tensor.place < 0 || to[index]) return to[index];
    const std::size_t rank = tensor.is_scalar ? 0 : dimensions.size();
    OrtValue* value = nullptr;
    check(ort().KernelContext_GetOutput(context, static_cast<std::size_t>(tensor.place), dimensions.data(), rank,
                                        &value));
    return to[index] = read<void*>(ort().GetTensorMutableData, value);
  }
};

Kernel::Kernel(std::shared_ptr<client::Session> session, std::shared_ptr<client::Source> source, const Arena& arena,
               const std::vector<std::string>& inputs, const std::vector<std::string>& outputs)
    : OrtNodeComputeInfo{}, session_(std::move(session)), source_(std::move(source)), arena_(arena) {
  const client::LoadedModel description = model()->description();
  inputs_ = tensors_of(description.inputs, inputs);
  outputs_ = tensors_of(description.outputs, outputs);
  for (const Tensor& input : inputs_)
    if (input.place < 0) throw Failure("the model has an input '" + input.name + "', which ONNX Runtime does not give");
  for (const std::string& name : outputs)
    if (std::none_of(outputs_.begin(), outputs_.end(), [&](const Tensor& output) { return output.name == name; }))
      throw Failure("the model has no output '" + name + "', which ONNX Runtime wants");
  ort_version_supported = kApiVersion;
  CreateState = [](OrtNodeComputeInfo* self, OrtNodeComputeContext*, void** state) {
    *state = self;
    return static_cast<OrtStatus*>(nullptr);
  };
  ReleaseState = [](OrtNodeComputeInfo*, void*) {};
  Compute = [](OrtNodeComputeInfo* self, void*, OrtKernelContext* context) {
    return guarded([&] { static_cast<Kernel*>(self)->compute(context); });
  };
}

void Kernel::compute(OrtKernelContext* context) {
  Run run{context, nullptr, {}, {}, {}};
  read_inputs(run);
  place(run);
  for (int attempt = 0;;) {
    std::unique_ptr<Slot> slot = take_slot(run);
    for (std::size_t index = 0; index < inputs_.size(); ++index)
      if (run.key[index] < 0)
        check(client::convert(run.from[index], inputs_[index].element, slot->memory.data() + slot->places[index],
                              inputs_[index].stored, count_of(run.variant->inputs[index])));
    client::RunReport report;
    const Status status = slot->binding->run(&report);
    if (status.ok()) {
      write_outputs(run, *slot, report.outputs);
      return give_slot(run, std::move(slot), report.is_direct);
    }
    if (status.code() == Code::kOutputInsufficientSize &&
        !learn(*run.variant, report.outputs, /*follow_from_inputs=*/false, *slot))
      continue;
    // Runs have no effect but their outputs, so that one may be repeated.
    const bool is_lost = has_gone(slot->model) || !status.is_answer();
    if (!is_lost || ++attempt == kAttempts) check(status);
  }
}

std::shared_ptr<client::OwnedModel> Kernel::model() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (model_ && model_->is_own()) return model_;
  }
  const std::lock_guard<std::mutex> loading(loading_);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (model_ && model_->is_own()) return model_;
  }
  const std::shared_ptr<client::Framework> framework = take(session_->framework());
  auto loaded = std::make_shared<client::OwnedModel>(framework, take(source_->load(framework)));
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [dimensions, variant] : variants_) variant->idle.clear();
  return model_ = std::move(loaded);
}

bool Kernel::has_gone(const std::shared_ptr<client::OwnedModel>& model) {
  if (session_->is_current(model->framework())) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (model_ == model) model_.reset();
  return true;
}

void Kernel::read_inputs(Run& run) {
  std::vector<Dimensions> open;
  for (const Tensor& input : inputs_) {
    const auto place = static_cast<std::size_t>(input.place);
    const auto* const value = read<const OrtValue*>(ort().KernelContext_GetInput, run.context, place);
    if (!value) throw Failure("input '" + input.name + "' is missing");
    run.from.push_back(read<void*>(ort().GetTensorMutableData, const_cast<OrtValue*>(value)));
    Dimensions dimensions = dimensions_of(value);
    if (input.is_open) {
      open.push_back(std::move(dimensions));
    } else if (dimensions != (input.is_scalar ? Dimensions() : input.dimensions)) {
      // ONNX Runtime knows nothing of those that the option dimensions has fixed.
      throw Failure("input '" + input.name + "' has dimensions " + words(dimensions) +
                    ", and the model is loaded for " + words(input.dimensions));
    }
  }
  run.variant = variant_of(open);
}

std::shared_ptr<Variant> Kernel::variant_of(const std::vector<Dimensions>& open) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto found = variants_.find(open); found != variants_.end()) return found->second;
  auto variant = std::make_shared<Variant>();
  auto given = open.begin();
  for (const Tensor& input : inputs_) {
    const Dimensions& dimensions = variant->inputs.emplace_back(input.is_open ? *given++ : input.dimensions);
    variant->rooms.push_back(count_of(not_empty(dimensions)) * client::bytes_of(input.stored));
  }
  for (const Tensor& output : outputs_) {
    variant->outputs.emplace_back();
    variant->rooms.push_back(output.is_open ? kGuess : count_of(output.dimensions) * client::bytes_of(output.stored));
  }
  if (variants_.size() >= kMaxVariants) variants_.erase(variants_.begin());
  return variants_[open] = variant;
}

void Kernel::place(Run& run) {
  const auto place_of = [&](const Tensor& tensor, const void* data, const Dimensions& dimensions) {
    const std::size_t size = count_of(dimensions) * client::bytes_of(tensor.stored);
    return size && data && tensor.element == tensor.stored ? arena_.offset_of(data, size) : std::int64_t{-1};
  };
  for (std::size_t index = 0; index < inputs_.size(); ++index)
    run.key.push_back(place_of(inputs_[index], run.from[index], run.variant->inputs[index]));
  run.to.resize(outputs_.size());
  for (std::size_t index = 0; index < outputs_.size(); ++index) {
    const Tensor& output = outputs_[index];
    std::optional<Dimensions> found;
    if (output.is_open) {
      const std::lock_guard<std::mutex> lock(mutex_);
      found = run.variant->outputs[index];
      if (!found) {
        run.key.push_back(-1);
        continue;
      }
    }
    const Dimensions& dimensions = found ? *found : output.dimensions;
    run.key.push_back(place_of(output, run.allocate(index, output, dimensions), dimensions));
  }
}

std::unique_ptr<Slot> Kernel::take_slot(const Run& run) {
  std::shared_ptr<client::OwnedModel> loaded = model();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::unique_ptr<Slot>>& idle = run.variant->idle;
    for (std::size_t at = idle.size(); at-- > 0;) {
      if (idle[at]->key != run.key || idle[at]->model != loaded || idle[at]->rooms != run.variant->rooms) continue;
      std::unique_ptr<Slot> slot = std::move(idle[at]);
      idle.erase(idle.begin() + static_cast<std::ptrdiff_t>(at));
      return slot;
    }
  }
  // The run that was cut off may have ended before the link to the framework, and so may not have seen that it has
  // gone.
  if (has_gone(loaded)) loaded = model();
  return bind(run, std::move(loaded));
}

void Kernel::give_slot(const Run& run, std::unique_ptr<Slot> slot, bool is_direct) {
  std::unique_ptr<Slot> oldest;  // ends after the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  had_direct_runs_ |= is_direct;
  // A device may be back, or another one has taken its place: only a new binding finds that out.
  const bool is_detour = had_direct_runs_ && !is_direct;
  if (slot->binding->has_lost_run_channel() || (is_detour && now_ns() - slot->bound_ns > kDetourNs)) {
    oldest = std::move(slot);
    return;
  }
  std::vector<std::unique_ptr<Slot>>& idle = run.variant->idle;
  idle.push_back(std::move(slot));
  if (idle.size() <= kMaxIdle) return;
  oldest = std::move(idle.front());
  idle.erase(idle.begin());
}

std::unique_ptr<Slot> Kernel::bind(const Run& run, std::shared_ptr<client::OwnedModel> model) {
  client::Framework& framework = model->framework();
  const client::ClientMemory& memory = model->description().memory;
  for (;;) {
    auto slot = std::make_unique<Slot>();
    slot->model = model;
    slot->key = run.key;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      slot->rooms = run.variant->rooms;
    }
    std::size_t size = 0;
    for (std::size_t index = 0; index < slot->rooms.size(); ++index) {
      slot->places.push_back(size);
      if (slot->key[index] < 0) size += memory.aligned(std::max<std::size_t>(slot->rooms[index], 1));
    }
    std::vector<const Fd*> files;
    std::vector<std::int64_t> sizes;
    if (size) {
      slot->memory = take(SharedMemory::make(size, "nnhal-ort-run"));
      files.push_back(&slot->memory.file);
      sizes.push_back(static_cast<std::int64_t>(size));
    }
    const auto arena_pool = static_cast<std::int32_t>(files.size());
    if (std::any_of(slot->key.begin(), slot->key.end(), [](std::int64_t offset) { return offset >= 0; })) {
      files.push_back(&arena_.file());
      sizes.push_back(static_cast<std::int64_t>(Arena::kBytes));
    }
    const auto bound = [&](std::size_t index, const std::string& name, const Dimensions& dimensions) {
      const bool is_placed = slot->key[index] >= 0;
      const auto room = static_cast<std::int64_t>(std::max<std::size_t>(slot->rooms[index], 1));
      const auto offset = is_placed ? slot->key[index] : static_cast<std::int64_t>(slot->places[index]);
      return client::BoundTensor{
          name, {is_placed ? arena_pool : 0, offset, room}, {dimensions.begin(), dimensions.end()}};
    };
    std::vector<client::BoundTensor> inputs, outputs;
    std::vector<client::InputDimensions> lengths;  // of empty inputs, which runs tell
    for (std::size_t index = 0; index < inputs_.size(); ++index) {
      const Dimensions dimensions = inputs_[index].is_open ? run.variant->inputs[index] : Dimensions();
      if (!count_of(dimensions)) lengths.push_back({inputs_[index].name, {dimensions.begin(), dimensions.end()}});
      inputs.push_back(bound(index, inputs_[index].name, not_empty(dimensions)));
    }
    for (std::size_t index = 0; index < outputs_.size(); ++index) {
      outputs.push_back(bound(inputs_.size() + index, outputs_[index].name, {}));
      outputs.back().declared = outputs_[index].dimensions;
      outputs.back().element_bytes = client::bytes_of(outputs_[index].stored);
    }
    const std::vector<std::uint64_t> ids = take(framework.link().put(files));
    std::vector<Message> pools;
    for (std::size_t at = 0; at < ids.size(); ++at) pools.push_back(memory.pool(ids[at], sizes[at]));
    client::BindOptions options;
    options.varies_inputs = !lengths.empty();
    Result<std::unique_ptr<client::Binding>> binding =
        framework.bind(model->description().name, inputs, outputs, pools, options);
    (void)framework.link().drop(ids);  // the binding keeps what it maps
    slot->binding = take(std::move(binding));
    slot->binding->resize(std::move(lengths));
    slot->bound_ns = now_ns();
    if (learn(*run.variant, slot->binding->known_outputs(), /*follow_from_inputs=*/true, *slot)) return slot;
  }
}

bool Kernel::learn(Variant& variant, const std::vector<client::OutputReport>& reports, bool follow_from_inputs,
                   const Slot& slot) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const client::OutputReport& report : reports) {
    for (std::size_t index = 0; index < outputs_.size(); ++index) {
      if (outputs_[index].name != report.name) continue;
      std::size_t& room = variant.rooms[inputs_.size() + index];
      room = std::max(room, count_of(report.dimensions) * client::bytes_of(outputs_[index].stored));
      if (follow_from_inputs) variant.outputs[index] = report.dimensions;
    }
  }
  return slot.rooms == variant.rooms;
}

void Kernel::write_outputs(Run& run, const Slot& slot, const std::vector<client::OutputReport>& reports) {
  for (std::size_t index = 0; index < outputs_.size(); ++index) {
    const Tensor& output = outputs_[index];
    const std::size_t at = inputs_.size() + index;
    if (output.place < 0 || slot.key[at] >= 0) continue;
    const Dimensions* dimensions = &output.dimensions;
    if (output.is_open) {
      const auto found =
          std::find_if(reports.begin(), reports.end(), [&](const auto& report) { return report.name == output.name; });
      if (found == reports.end())
        throw Failure("the run has not said which dimensions output '" + output.name + "' has");
      dimensions = &found->dimensions;
    }
    check(client::convert(slot.memory.data() + slot.places[at], output.stored, run.allocate(index, output, *dimensions),
                          output.element, count_of(*dimensions)));
  }
}

}  // namespace nnhal::ort_ep
