// ANeuralNetworksModel: a model that an application builds call by call.
//
// The rules of operands and operations are the framework's, which is asked at the call that adds one (CheckModel of
// framework.proto): an application learns at the same call as on a phone what it has done wrong.
#ifndef NNHAL_NDK_MODEL_H_
#define NNHAL_NDK_MODEL_H_

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "handles.h"
#include "nnhal/client/model.h"
#include "nnhal/memory.h"
#include "operands.h"
#include "session.h"

namespace nnhal::ndk {

class FileMemory;
class Memory;

// BAD_DATA if there are dimensions without a pointer to them, or the other way round.
void require_consistent(const OperandType& type);

// A model as a session knows it, as long as this lives.
struct SentModel {
  client::Model model;
  PutDescriptors descriptors;

  client::Framework& framework() const { return descriptors.session().framework(); }
};

class Model : public Object, public std::enable_shared_from_this<Model> {
 public:
  void add_operand(const OperandType& given);
  void set_value(std::int32_t index, const void* buffer, std::size_t length);
  void set_value(std::int32_t index, std::shared_ptr<Memory> memory, std::size_t offset, std::size_t length);
  void set_value(std::int32_t index, std::shared_ptr<const Model> model);
  void set_channel_quantisation(std::int32_t index, const ChannelQuantisation& given);
  void set_extension_data(std::int32_t index, const void* data, std::size_t length);
  void add_operation(std::int32_t type, Dimensions inputs, Dimensions outputs);
  void identify(Dimensions inputs, Dimensions outputs);
  void relax(bool is_allowed);
  void finish();

  // BAD_STATE if it is to be finished first, or has failed to.
  void require_finished() const;
  // No device takes the operands and operations of an OEM: such a model can be built, and not compiled.
  bool uses_oem() const { return uses_oem_; }
  // The finished model. With its constants in memory of a session.
  SentModel sent(std::shared_ptr<Session> session) const;
  const client::Operand& input(std::size_t index) const { return operands_[inputs_[index]]; }
  const client::Operand& output(std::size_t index) const { return operands_[outputs_[index]]; }
  std::size_t inputs() const { return inputs_.size(); }
  std::size_t outputs() const { return outputs_.size(); }
  std::size_t operations() const { return operations_.size(); }

 private:
  struct NoValue {};
  struct InMemory {
    std::shared_ptr<const FileMemory> memory;
    std::size_t offset, length;
  };
  using Value = std::variant<NoValue, std::string, InMemory, std::shared_ptr<const Model>>;
  class Assembly;

  void require_unfinished() const;
  client::Operand& operand(std::int32_t index);
  void require_length(std::int32_t index, std::size_t length);

  std::vector<client::Operand> operands_;
  std::map<std::int32_t, Value> values_;
  std::vector<client::Operation> operations_;
  Dimensions inputs_, outputs_;
  bool is_relaxed_ = false, uses_oem_ = false, is_finished_ = false, has_failed_ = false;
};

}  // namespace nnhal::ndk

#endif  // NNHAL_NDK_MODEL_H_
