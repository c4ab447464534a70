#include "kernel.h"

#include <algorithm>
#include <cstdlib>

namespace nnhal::tflite {

using client::count_of, client::not_empty, client::words;

namespace {

constexpr std::size_t kGuess = 4096;    // bytes for an output of which nothing is known
constexpr std::size_t kMostSlots = 8;
constexpr int kAttempts = 3;  // for a run that a framework's end has cut off
constexpr std::int64_t kDetourNs =
    100'000'000;  // how long runs go through the framework until they may be direct again

std::vector<std::int64_t> dimensions_of(const Tensor& tensor) {
  if (!tensor.dimensions || tensor.dimensions->size == 0) return {1};  // a scalar, as the HAL has it
  return {tensor.dimensions->begin(), tensor.dimensions->end()};
}

void make_dynamic(Tensor& tensor) {
  if (tensor.allocation == kDynamic) return;
  if (tensor.allocation == kPersistentConstant) std::free(tensor.data);
  tensor.allocation = kDynamic;
  tensor.data = nullptr;
}

bool contains(const std::vector<int>& tensors, int tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

}  // namespace

Registration registration() {
  Registration made{};
  made.init = [](Context* context, const char* parameters, std::size_t) -> void* {
    Kernel* kernel = nullptr;
    (void)guarded(context,
                  [&] { kernel = new Kernel(replaced_graph(), *reinterpret_cast<const Subset*>(parameters)); });
    return kernel;
  };
  made.free = [](Context*, void* kernel) { delete static_cast<Kernel*>(kernel); };
  made.prepare = [](Context* context, Node* node) {
    auto* const kernel = static_cast<Kernel*>(node->user_data);
    return kernel ? guarded(context, [&] { kernel->prepare(context); }) : kError;
  };
  made.invoke = [](Context* context, Node* node) {
    return guarded(context, [&] { static_cast<Kernel*>(node->user_data)->invoke(context); });
  };
  made.builtin_code = kDelegateOperator;
  made.custom_name = "nnhal";
  made.version = 1;
  return made;
}

Kernel::Kernel(std::shared_ptr<PlannedGraph> graph, const Subset& subset)
    : graph_(std::move(graph)),
      nodes_(subset.nodes->begin(), subset.nodes->end()),
      given_(subset.inputs->begin(), subset.inputs->end()),
      wanted_(subset.outputs->begin(), subset.outputs->end()) {}

void Kernel::prepare(Context* context) {
  variables_.clear();
  for (const std::int32_t node : nodes_)
    for (const int input : graph_->graph().operators[static_cast<std::size_t>(node)].inputs)
      if (input >= 0 && context->tensors[input].is_variable) variables_.push_back(input);
  drop_what_is_gone();
  const std::shared_ptr<client::PlannedModel> plan = graph_->plan(*context);
  if (!model_ || plan != plan_) load(plan, *context);
  const std::vector<bool> is_known = graph_->known_tensors(*context);
  require_fitting(*context, is_known);
  if (are_inputs_known(is_known)) slot_for(*context);
  // Of others TensorFlow Lite has found out the dimensions itself.
  for (const Border& output : outputs_)
    if (!is_known[static_cast<std::size_t>(output.tensor)]) make_dynamic(context->tensors[output.tensor]);
}

void Kernel::invoke(Context* context) {
  if (model_ && !model_->is_own()) drop();
  for (int attempt = 0;;) {
    if (!model_) load(graph_->plan(*context), *context);
    require_fitting(*context, std::vector<bool>(context->tensor_count, true));
    Slot& slot = slot_for(*context);
    read_inputs(*context, slot);
    follow_resets(*context, slot);
    slot.has_run = true;
    client::RunReport report;
    const Status status = slot.binding->run(&report);
    if (status.ok()) {
      learn(slot, report.outputs);
      write_outputs(context, slot);
      return keep_or_drop(slot, report.is_direct);
    }
    if (status.code() == Code::kOutputInsufficientSize && !learn(slot, report.outputs)) {
      bind(slot);
      continue;
    }
    const bool has_state = !model_->description().states.empty();
    const bool is_lost = drop_what_is_gone() || !status.is_answer();
    // Runs have no effect but their outputs, so that one may be repeated, unless the model has a state.
    if (!is_lost || has_state || ++attempt == kAttempts) {
      if (is_lost) drop();
      check(is_lost && has_state ? status.in("the state of the model is lost") : status);
    }
  }
}

void Kernel::load(std::shared_ptr<client::PlannedModel> plan, const Context& context) {
  drop();
  plan_ = plan;
  const auto has_part = [&](const client::PlannedModel& planned) {
    return std::any_of(planned.plan().groups.begin(), planned.plan().groups.end(),
                       [&](const client::PlannedGroup& group) { return group.nodes == nodes_; });
  };
  if (!has_part(*plan)) plan = graph_->plan_part(context, nodes_);
  const std::shared_ptr<client::Framework> framework = take(graph_->session().framework());
  auto loaded = std::make_unique<client::OwnedModel>(framework, take(plan->load(framework, nodes_)));
  inputs_ = borders_of(loaded->description().inputs);
  outputs_ = borders_of(loaded->description().outputs);
  for (const Border& input : inputs_)
    if (!contains(given_, input.tensor))
      throw Failure("the part has an input '" + input.name + "', which TensorFlow Lite does not give");
  for (const int tensor : wanted_)
    if (std::none_of(outputs_.begin(), outputs_.end(), [&](const Border& output) { return output.tensor == tensor; }))
      throw Failure("the part has no output for tensor " + std::to_string(tensor) + ", which TensorFlow Lite wants");
  for (const Border& output : outputs_)
    if (!contains(wanted_, output.tensor))
      throw Failure("the part has an output '" + output.name + "', which TensorFlow Lite does not want");
  model_ = std::move(loaded);
}

std::vector<Kernel::Border> Kernel::borders_of(const std::vector<client::TensorInfo>& tensors) {
  std::vector<Border> borders;
  for (const client::TensorInfo& tensor : tensors) {
    Border& border = borders.emplace_back();
    border.name = tensor.name;
    border.tensor = tensor.tensor;
    border.element = client::element_named(tensor.element_type);
    border.stored = client::stored_element(tensor.type, border.element);
    if (!client::bytes_of(border.element) || !client::bytes_of(border.stored))
      throw Failure("'" + tensor.name + "' has elements of type '" + tensor.element_type +
                    "', which runs cannot pass on");
    border.is_scalar = tensor.is_scalar;
    border.dimensions.assign(tensor.dimensions.begin(), tensor.dimensions.end());
    border.is_open = tensor.byte_size == 0;
  }
  return borders;
}

bool Kernel::are_inputs_known(const std::vector<bool>& is_known) const {
  return std::all_of(inputs_.begin(), inputs_.end(),
                     [&](const Border& input) { return is_known[static_cast<std::size_t>(input.tensor)]; });
}

const Kernel::Border* Kernel::misfit(const Context& context, const std::vector<bool>& is_known) const {
  const auto fits = [&](const Border& border) {
    if (!is_known[static_cast<std::size_t>(border.tensor)]) return true;
    const Dimensions dimensions = dimensions_of(context.tensors[border.tensor]);
    if (count_of(dimensions) == 1 && count_of(border.dimensions) == 1) return true;
    return std::equal(dimensions.begin(), dimensions.end(), border.dimensions.begin(), border.dimensions.end(),
                      [](std::int64_t now, std::int64_t loaded) { return loaded == 0 || now == loaded; });
  };
  const auto input = std::find_if_not(inputs_.begin(), inputs_.end(), fits);
  return input == inputs_.end() ? nullptr : &*input;
}

void Kernel::require_fitting(const Context& context, const std::vector<bool>& is_known) {
  if (!misfit(context, is_known)) return;
  load(graph_->plan_again(context), context);
  if (const Border* const border = misfit(context, is_known))
    throw Failure("'" + border->name + "' has dimensions " + words(dimensions_of(context.tensors[border->tensor])) +
                  ", the part takes " + words(border->dimensions));
}

Kernel::Slot& Kernel::slot_for(const Context& context) {
  std::vector<Dimensions> open;
  for (const Border& input : inputs_)
    if (input.is_open) open.push_back(dimensions_of(context.tensors[input.tensor]));
  const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) { return slot.inputs == open; });
  if (found != slots_.end()) {
    std::rotate(found, found + 1, slots_.end());
    return slots_.back();
  }
  if (slots_.size() >= kMostSlots) slots_.erase(slots_.begin());
  Slot slot;
  slot.inputs = std::move(open);
  auto given = slot.inputs.begin();
  for (const Border& input : inputs_) {
    const std::size_t count = count_of(not_empty(input.is_open ? *given++ : input.dimensions));
    slot.rooms.push_back(count * client::bytes_of(input.stored));
  }
  for (const Border& output : outputs_) {
    slot.outputs.push_back(output.is_open ? std::nullopt : std::optional<Dimensions>(output.dimensions));
    slot.rooms.push_back(output.is_open ? kGuess : count_of(output.dimensions) * client::bytes_of(output.stored));
  }
  bind(slot);
  slots_.push_back(std::move(slot));
  return slots_.back();
}

void Kernel::bind(Slot& slot) {
  client::Framework& framework = model_->framework();
  const client::ClientMemory& memory = model_->description().memory;
  do {
    slot.binding.reset();
    slot.places.clear();
    std::size_t size = 0;
    for (std::size_t& room : slot.rooms) {
      room = std::max<std::size_t>(room, 1);
      slot.places.push_back(size);
      size += memory.aligned(room);
    }
    slot.memory = take(SharedMemory::make(size, "nnhal-tflite-run"));
    auto given = slot.inputs.begin();
    std::vector<client::BoundTensor> inputs, outputs;
    std::vector<client::InputDimensions> lengths;  // of empty inputs, which runs tell
    for (std::size_t index = 0; index < slot.places.size(); ++index) {
      const bool is_input = index < inputs_.size();
      const Border& border = is_input ? inputs_[index] : outputs_[index - inputs_.size()];
      client::BoundTensor& tensor = (is_input ? inputs : outputs).emplace_back();
      tensor.name = border.name;
      tensor.location = {0, static_cast<std::int64_t>(slot.places[index]),
                         static_cast<std::int64_t>(slot.rooms[index])};
      if (!is_input) {
        tensor.declared = border.dimensions;
        tensor.element_bytes = client::bytes_of(border.stored);
      }
      if (!is_input || !border.is_open) continue;
      if (!count_of(*given)) lengths.push_back({border.name, {given->begin(), given->end()}});
      const Dimensions dimensions = not_empty(*given++);
      tensor.dimensions.assign(dimensions.begin(), dimensions.end());
    }
    const std::uint64_t id = take(framework.link().put(slot.memory.file));
    client::BindOptions options;
    options.varies_inputs = !lengths.empty();
    Result<std::unique_ptr<client::Binding>> binding = framework.bind(
        model_->description().name, inputs, outputs, {memory.pool(id, static_cast<std::int64_t>(size))}, options);
    (void)framework.link().drop({id});  // the binding keeps what it maps
    slot.binding = take(std::move(binding));
    slot.binding->resize(std::move(lengths));
    slot.bound_ns = now_ns();
  } while (!learn(slot, slot.binding->known_outputs()));
}

bool Kernel::learn(Slot& slot, const std::vector<client::OutputReport>& reports) {
  bool has_room = true;
  for (const client::OutputReport& report : reports) {
    for (std::size_t index = 0; index < outputs_.size(); ++index) {
      if (outputs_[index].name != report.name) continue;
      std::size_t& room = slot.rooms[inputs_.size() + index];
      const std::size_t needed = count_of(report.dimensions) * client::bytes_of(outputs_[index].stored);
      has_room &= needed <= room;
      room = std::max(room, needed);
      slot.outputs[index] = report.dimensions;
    }
  }
  return has_room;
}

void Kernel::read_inputs(const Context& context, const Slot& slot) const {
  auto given = slot.inputs.begin();
  for (std::size_t index = 0; index < inputs_.size(); ++index) {
    const Border& input = inputs_[index];
    const Tensor& tensor = context.tensors[input.tensor];
    const std::size_t count = count_of(input.is_open ? *given++ : input.dimensions);
    const std::size_t found = tensor.data ? tensor.bytes : 0, expected = count * client::bytes_of(input.element);
    if (found != expected)
      throw Failure("input '" + input.name + "' has " + std::to_string(found) + " bytes, expected " +
                    std::to_string(expected));
    check(client::convert(tensor.data, input.element, slot.memory.data() + slot.places[index], input.stored, count));
  }
}

void Kernel::follow_resets(const Context& context, const Slot& slot) const {
  bool was_reset = false;
  for (const int variable : variables_) {
    // Nobody but us uses its memory. A mark in it goes when TensorFlow Lite fills it with its zero point.
    const Tensor& tensor = context.tensors[variable];
    const auto mark = static_cast<std::uint8_t>(~tensor.zero_point);
    auto* const place = static_cast<std::uint8_t*>(tensor.data);
    if (!place || !tensor.bytes || *place == mark) continue;
    *place = mark;
    was_reset = true;
  }
  if (was_reset && slot.has_run) check(model_->framework().reset_state(*slot.binding));
}

void Kernel::write_outputs(Context* context, const Slot& slot) const {
  for (std::size_t index = 0; index < outputs_.size(); ++index) {
    const Border& output = outputs_[index];
    Tensor& tensor = context->tensors[output.tensor];
    if (!slot.outputs[index]) throw Failure("the run has not said which dimensions output '" + output.name + "' has");
    const Dimensions& dimensions = *slot.outputs[index];
    if (tensor.allocation == kDynamic) resize(context, tensor, output.is_scalar ? Dimensions() : dimensions);
    const std::size_t count = count_of(dimensions);
    if (tensor.bytes != count * client::bytes_of(output.element))
      throw Failure("output '" + output.name + "' has dimensions " + words(dimensions) + ", and TensorFlow Lite has " +
                    std::to_string(tensor.bytes) + " bytes for it");
    check(client::convert(slot.memory.data() + slot.places[inputs_.size() + index], output.stored, tensor.data,
                          output.element, count));
  }
}

void Kernel::resize(Context* context, Tensor& tensor, const Dimensions& dimensions) {
  auto* const sizes = static_cast<int*>(std::malloc((dimensions.size() + 1) * sizeof(int)));
  if (!sizes) throw Failure("no memory for dimensions");
  sizes[0] = static_cast<int>(dimensions.size());
  std::copy(dimensions.begin(), dimensions.end(), sizes + 1);
  if (context->resize_tensor(context, &tensor, reinterpret_cast<Ints*>(sizes)) != kOk)
    throw Failure("TensorFlow Lite has not resized an output to " + words(dimensions));
}

void Kernel::keep_or_drop(const Slot& slot, bool is_direct) {
  had_direct_runs_ |= is_direct;
  // A device may be back, or another one has taken its place: only a new binding finds that out. It has a new state.
  const bool is_detour = had_direct_runs_ && !is_direct && now_ns() - slot.bound_ns > kDetourNs;
  if ((is_detour || slot.binding->has_lost_run_channel()) && model_->description().states.empty()) slots_.pop_back();
}

bool Kernel::drop_what_is_gone() {
  if (!model_ || (model_->is_own() && graph_->session().is_current(model_->framework()))) return false;
  drop();
  return true;
}

void Kernel::drop() {
  slots_.clear();
  model_.reset();
}

}  // namespace nnhal::tflite
