// A compilation that is bound to the arguments of executions: buffers have a place in one shared memory, memory is used
// in place. One run at a time.
#ifndef NNHAL_NDK_BOUND_RUN_H_
#define NNHAL_NDK_BOUND_RUN_H_

#include <memory>
#include <string>
#include <vector>

#include "arguments.h"
#include "compilation.h"
#include "nnhal/client/framework.h"
#include "nnhal/memory.h"

namespace nnhal::ndk {

class BoundRun {
 public:
  // What must be equal for a bound run to serve another execution.
  static std::string key_of(const ArgumentList& inputs, const ArgumentList& outputs,
                            const client::BindOptions& options);
  BoundRun(Compilation& compilation, std::string key, const ArgumentList& inputs, const ArgumentList& outputs,
           const client::BindOptions& options);

  const std::string& key() const { return key_; }
  client::Binding& binding() { return *binding_; }
  // Copies the application's inputs into the shared memory, and outputs that were computed out of it.
  void fill(const ArgumentList& inputs);
  void take_out(const ArgumentList& outputs) const;

 private:
  client::BoundTensor bound(const std::string& name, const Argument& argument, PutDescriptors& descriptors);

  const std::string key_;
  const std::shared_ptr<Session> session_;
  const client::ClientMemory layout_;
  std::vector<std::shared_ptr<Memory>> used_, roles_;  // kept as long as the binding
  std::vector<Message> pools_;
  SharedMemory memory_;
  std::size_t placed_ = 0, outputs_at_ = 0;
  std::unique_ptr<client::Binding> binding_;
};

}  // namespace nnhal::ndk

#endif  // NNHAL_NDK_BOUND_RUN_H_
