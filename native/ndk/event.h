// ANeuralNetworksEvent: the end of an execution, or any sync fence.
#ifndef NNHAL_NDK_EVENT_H_
#define NNHAL_NDK_EVENT_H_

#include <functional>
#include <memory>
#include <vector>

#include "handles.h"
#include "nnhal/fence.h"

namespace nnhal::ndk {

class Event : public Object {
 public:
  // `conclude` refuses if what the fence stands for has failed. `before` are events that it depends on: the outputs of
  // their executions are in their buffers, too, once it was waited for.
  Event(Fence fence, std::function<void()> conclude, bool has_sync_fence = true,
        std::vector<std::shared_ptr<Event>> before = {})
      : fence_(std::move(fence)),
        conclude_(std::move(conclude)),
        has_sync_fence_(has_sync_fence),
        before_(std::move(before)) {}
  // Takes a duplicate of a descriptor of the application.
  static std::shared_ptr<Event> of_descriptor(int descriptor);

  const Fence& fence() const { return fence_; }
  // A descriptor of its sync fence, which the application closes. BAD_DATA for the end of an execution that was not
  // launched as fenced.
  int sync_fence() const;
  void wait() const;
  // Waits if it is the end of an execution, which uses the application's buffers until then.
  void settle() const {
    if (conclude_) wait();
  }

 private:
  const Fence fence_;
  const std::function<void()> conclude_;
  const bool has_sync_fence_;
  const std::vector<std::shared_ptr<Event>> before_;
};

}  // namespace nnhal::ndk

#endif  // NNHAL_NDK_EVENT_H_
