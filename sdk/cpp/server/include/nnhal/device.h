// What a vendor implements to have a device of its own: a Driver, and the Prepared models that it makes.
//
// The server around it (nnhal::serve) has the sockets, the sessions, the memory and the order of the runs. It hands over models
// that are whole and in order, with their constants mapped, and arguments that are mapped, aligned and of known size. What an
// operation takes, the driver alone knows: it says so in `supported`.
#ifndef NNHAL_DEVICE_H_
#define NNHAL_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "nnhal/status.h"
#include "nnhal/v1/model.pb.h"
#include "nnhal/v1/types.pb.h"

namespace nnhal {

// The extents of a tensor. 0 is one that is not known yet; a scalar has none.
using Dimensions = std::vector<std::int32_t>;

// Ends a call with a status other than NONE. A driver may throw it wherever it is called.
class Failure : public std::runtime_error {
 public:
  Failure(Code code, const std::string& message) : std::runtime_error(message), code(code) {}
  explicit Failure(const Status& status) : Failure(status.code(), status.text()) {}

  const Code code;
};

// Bytes that somebody else owns.
struct Bytes {
  const void* data = nullptr;
  std::size_t size = 0;

  // The bytes as numbers. Constants need not be aligned, so that a driver copies what it must.
  template <class T>
  std::vector<T> copy() const {
    std::vector<T> values(size / sizeof(T));
    __builtin_memcpy(values.data(), data, values.size() * sizeof(T));
    return values;
  }
};

// A valid model, with the values of its constants as long as it lives.
class Model {
 public:
  Model(v1::Model message, std::vector<std::shared_ptr<const void>> keeps, std::vector<Bytes> pools)
      : message_(std::move(message)), keeps_(std::move(keeps)), pools_(std::move(pools)) {}

  const v1::Model& message() const { return message_; }
  const v1::Subgraph& main() const { return message_.main(); }
  // An operand of the main subgraph.
  const v1::Operand& operand(int index) const { return message_.main().operands(index); }

  // The value of an operand of any subgraph; empty if it is no constant.
  Bytes constant(const v1::Operand& operand) const {
    const v1::DataLocation& location = operand.location();
    if (operand.lifetime() == v1::OPERAND_LIFE_TIME_CONSTANT_COPY) {
      return {message_.operand_values().data() + location.offset(), static_cast<std::size_t>(location.length())};
    }
    if (operand.lifetime() == v1::OPERAND_LIFE_TIME_CONSTANT_POOL) {
      const Bytes& pool = pools_.at(location.pool_index());
      return {static_cast<const char*>(pool.data) + location.offset(), static_cast<std::size_t>(location.length())};
    }
    return {};
  }

  // Whether an operand of the main subgraph has a value that is known now.
  bool is_constant(int index) const { return constant(operand(index)).data != nullptr; }

  // The value of a constant scalar of the main subgraph; `otherwise` if it is no constant of that size.
  template <class T>
  T scalar(int index, T otherwise) const {
    const Bytes bytes = constant(operand(index));
    if (bytes.size == sizeof(T)) __builtin_memcpy(&otherwise, bytes.data, sizeof(T));
    return otherwise;
  }

 private:
  v1::Model message_;
  std::vector<std::shared_ptr<const void>> keeps_;
  std::vector<Bytes> pools_;
};

// Whether a device can do one operation as given. The reason of a refusal is told to users and to the planner.
struct Support {
  bool supported = true;
  std::string code = {};     // a stable word for the reason, such as DTYPE or RANK; see docs/device_in_any_language.md
  std::string got = {};      // what the model has
  std::string allowed = {};  // what the device can do
  std::string hint = {};     // what would make it supported, if anything would

  static Support no(std::string code, std::string got, std::string allowed, std::string hint = {}) {
    return {false, std::move(code), std::move(got), std::move(allowed), std::move(hint)};
  }
};

// What a preparation is asked to favour.
struct Preparation {
  v1::ExecutionPreference preference = v1::EXECUTION_PREFERENCE_LOW_POWER;
  v1::Priority priority = v1::PRIORITY_LOW;
  std::int64_t deadline_ns = -1;  // by CLOCK_BOOTTIME; -1 for none
};

// One input of a run. `data` is null if it is omitted.
struct Input {
  const void* data = nullptr;
  std::size_t bytes = 0;
  Dimensions dimensions;
};

// One output of a run. `data` is null if nobody wants it.
struct Output {
  void* data = nullptr;
  std::size_t bytes = 0;
  Dimensions dimensions;  // 0 for extents that the run decides
  Dimensions made;        // what `set_dimensions` was given
  bool is_made = false;
};

// The arguments of one run, mapped, and what the run may tell of itself.
class Arguments {
 public:
  virtual ~Arguments() = default;

  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::int64_t loop_timeout_ns = 2'000'000'000;  // for one activation of WHILE
  std::int64_t time_on_device_ns = -1;           // set it if the device measures; else the host's clock is taken

  template <class T>
  const T* input(std::size_t index) const { return static_cast<const T*>(inputs[index].data); }
  template <class T>
  T* output(std::size_t index) const { return static_cast<T*>(outputs[index].data); }

  // Says what an output has become, if not all of its dimensions were known. Returns whether its memory is large enough: else
  // nothing is to be written to it, and the client is told how much it takes.
  virtual bool set_dimensions(std::size_t output, const Dimensions& dimensions) = 0;

  // Throws Failure if the run is to end now: its deadline has passed, or nobody wants it any more. Call it between operations.
  virtual void check() const = 0;
};

// A model that the driver has compiled. Runs of it come from several threads at a time, if the device has several workers.
class Prepared {
 public:
  virtual ~Prepared() = default;
  virtual Status execute(Arguments& arguments) = 0;
};

// The parts of the cost model that no operation causes, in nanoseconds.
struct Costs {
  double hop_ns = 0;
  double sync_ns = 0;
  double import_ns = 0;
  double copy_ns_per_byte = 0;
};

// A device. All methods may be called from several threads at a time.
class Driver {
 public:
  virtual ~Driver() = default;

  virtual std::string name() const = 0;
  // Differs whenever the driver could compile differently.
  virtual std::string version() const = 0;
  // What the device really is, in a sentence.
  virtual std::string realisation() const = 0;
  virtual v1::DeviceType type() const { return v1::DEVICE_TYPE_ACCELERATOR; }
  virtual v1::Capabilities capabilities() const = 0;
  virtual std::vector<v1::Extension> extensions() const { return {}; }

  // One answer for each operation of the main subgraph. Throws Failure, INVALID_ARGUMENT, for an operation that contradicts itself,
  // as one without an input that it must have: the model is invalid then, and not just more than the device can do.
  virtual std::vector<Support> supported(const Model& model) const = 0;
  // Compiles a model of which every operation is supported. The model lives as long as the driver keeps it.
  virtual std::unique_ptr<Prepared> prepare(std::shared_ptr<const Model> model, const Preparation& preparation) = 0;

  // Nanoseconds for each operation of the main subgraph, if the driver has a model of them; the planner compares devices by it.
  virtual std::vector<double> operation_ns(const Model&) const { return {}; }
  virtual Costs costs() const { return {}; }
  // Bytes to which arguments are aligned; those that are not are copied. A power of two, at most 4096.
  virtual int alignment() const { return 16; }
  // Whether time_on_device_ns comes from a model of the device, and not from a clock.
  virtual bool modelled_timing() const { return false; }
};

// Serves a device until it is told to stop, and returns the status with which the process is to exit: what `main` does.
//
//   PROGRAM --endpoint DIR [--workers N] [--log-level LEVEL] [--admin-key FILE] [--spin-us N]
int serve(Driver& driver, int argc, char** argv);

}  // namespace nnhal

#endif  // NNHAL_DEVICE_H_
