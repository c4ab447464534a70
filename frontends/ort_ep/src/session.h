// A session with a framework, and models that are loaded in it.
#ifndef NNHAL_ORT_EP_SESSION_H_
#define NNHAL_ORT_EP_SESSION_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph.h"
#include "nnhal/client/framework.h"

namespace nnhal::ort_ep {

// How often this process has been forked off another one: what was opened under another number belongs to the parent.
unsigned forks();

// A session that is opened anew after the framework has gone, and in a fork. All of a process for one directory share
// it. Safe to use from several threads.
class Session {
 public:
  static std::shared_ptr<Session> of(const std::string& directory);

  // The framework. What was made in it is gone if another one is returned later. Throws Failure if none answers.
  std::shared_ptr<client::Framework> framework();
  // Whether that is still the one to use.
  bool is_current(const client::Framework& framework);

 private:
  explicit Session(std::string directory) : directory_(std::move(directory)) {}
  bool has_ended() const { return !framework_ || forks_ != forks() || framework_->link().has_ended(); }

  const std::string directory_;
  std::mutex mutex_;
  std::shared_ptr<client::Framework> framework_;
  unsigned forks_ = 0;
};

// A model in the framework. It is unloaded with its last owner.
class LoadedModel {
 public:
  LoadedModel(std::shared_ptr<client::Framework> framework, client::LoadedModel model)
      : framework_(std::move(framework)), model_(std::move(model)), forks_(forks()) {}
  LoadedModel(const LoadedModel&) = delete;
  ~LoadedModel();

  client::Framework& framework() const { return *framework_; }
  const client::LoadedModel& description() const { return model_; }
  // Whether it was loaded by this process, and not by the one that it was forked off.
  bool is_own() const { return forks_ == forks(); }

 private:
  const std::shared_ptr<client::Framework> framework_;
  const client::LoadedModel model_;
  const unsigned forks_;
};

// Where a model comes from: the framework may have to be told again.
class Source {
 public:
  virtual ~Source() = default;
  // Throws Failure.
  virtual client::LoadedModel load(const std::shared_ptr<client::Framework>& framework) = 0;
};

// A plan, and what it takes to plan again for a framework that does not know it.
class PlannedModel {
 public:
  PlannedModel(std::shared_ptr<client::Framework> framework, OnnxModel model, client::LoadOptions options);
  // Drops what the framework keeps of the plan.
  ~PlannedModel();

  const client::Plan& plan() const { return plan_; }
  // Loads the group that has just these nodes. Throws Failure.
  client::LoadedModel load(const std::shared_ptr<client::Framework>& framework, const std::vector<std::int32_t>& nodes);

 private:
  void make(const std::shared_ptr<client::Framework>& framework);

  const OnnxModel model_;
  const client::LoadOptions options_;
  std::mutex mutex_;
  std::shared_ptr<client::Framework> framework_;  // that keeps the plan
  unsigned forks_ = 0;
  client::Plan plan_;
};

// A group of a plan.
class PlannedSource : public Source {
 public:
  PlannedSource(std::shared_ptr<PlannedModel> model, std::vector<std::int32_t> nodes)
      : model_(std::move(model)), nodes_(std::move(nodes)) {}
  client::LoadedModel load(const std::shared_ptr<client::Framework>& framework) override;

 private:
  const std::shared_ptr<PlannedModel> model_;
  const std::vector<std::int32_t> nodes_;
};

// A file of its own.
class FileSource : public Source {
 public:
  FileSource(Fd file, client::LoadOptions options) : file_(std::move(file)), options_(std::move(options)) {}
  client::LoadedModel load(const std::shared_ptr<client::Framework>& framework) override;

 private:
  const Fd file_;
  const client::LoadOptions options_;
};

}  // namespace nnhal::ort_ep

#endif  // NNHAL_ORT_EP_SESSION_H_
