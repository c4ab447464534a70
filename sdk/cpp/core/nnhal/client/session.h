// A session with a framework that begins anew after the framework's end and in a fork, and models that are loaded in
// it: for libraries that live as long as the program that they serve.
#ifndef NNHAL_CLIENT_SESSION_H_
#define NNHAL_CLIENT_SESSION_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "framework.h"

namespace nnhal::client {

// The framework's directory for programs that name none: that of NNHAL_FRAMEWORK, else that of the "nnhal up" of this
// user, else /run/nnhal/framework.
std::string default_directory();

// How often this process has been forked off another one: what was opened under another number belongs to the parent.
unsigned forks();

// All of a process for one directory share it. Safe to use from several threads.
class Session {
 public:
  // `client_name` is for logs and operators.
  static std::shared_ptr<Session> of(const std::string& directory, const std::string& client_name);

  // The framework. What was made in it is gone if another one is returned later. A status if none answers.
  Result<std::shared_ptr<Framework>> framework();
  // Whether that is still the one to use.
  bool is_current(const Framework& framework);

 private:
  Session(std::string directory, std::string client_name)
      : directory_(std::move(directory)), client_name_(std::move(client_name)) {}
  bool has_ended() const { return !framework_ || forks_ != forks() || framework_->link().has_ended(); }

  const std::string directory_, client_name_;
  std::mutex mutex_;
  std::shared_ptr<Framework> framework_;
  unsigned forks_ = 0;
};

// A model in the framework. It is unloaded with its last owner.
class OwnedModel {
 public:
  OwnedModel(std::shared_ptr<Framework> framework, LoadedModel model)
      : framework_(std::move(framework)), model_(std::move(model)), forks_(forks()) {}
  OwnedModel(const OwnedModel&) = delete;
  ~OwnedModel();

  Framework& framework() const { return *framework_; }
  const LoadedModel& description() const { return model_; }
  // Whether it was loaded by this process, and not by the one that it was forked off.
  bool is_own() const { return forks_ == forks(); }

 private:
  const std::shared_ptr<Framework> framework_;
  const LoadedModel model_;
  const unsigned forks_;
};

// Where a model comes from: the framework may have to be told again.
class Source {
 public:
  virtual ~Source() = default;
  virtual Result<LoadedModel> load(const std::shared_ptr<Framework>& framework) = 0;
};

// A model's file, and the files in which it has values, by the locations that it has for them.
struct ModelFile {
  std::string name;  // with which the names begin that it gets in the session
  Fd file;
  std::map<std::string, Fd> weights;

  // A name that no other model of the session has.
  std::string next_name() const;
  // What changes with the content of its weights.
  std::vector<std::pair<off_t, std::int64_t>> versions() const;
  // The options with these files in them, which refer to this object.
  LoadOptions with_weights(LoadOptions options) const;
};

// A plan, and what it takes to plan again for a framework that does not know it.
class PlannedModel {
 public:
  // Plans it. `keeps` are the nodes that the client runs itself in any case, `operators` the only ones that it does
  // not; empty for all. It `may_load` a file at once that one device takes as it is, so that load() has no more to do.
  static Result<std::shared_ptr<PlannedModel>> make(const std::shared_ptr<Framework>& framework, ModelFile model,
                                                    LoadOptions options, std::vector<std::int32_t> keeps = {},
                                                    std::vector<std::string> operators = {}, bool may_load = false);
  // Drops what the framework keeps of the plan.
  ~PlannedModel();

  const Plan& plan() const { return plan_; }
  // Loads the group that has just these nodes.
  Result<LoadedModel> load(const std::shared_ptr<Framework>& framework, const std::vector<std::int32_t>& nodes);

 private:
  PlannedModel(ModelFile model, LoadOptions options, std::vector<std::int32_t> keeps,
               std::vector<std::string> operators, bool may_load)
      : model_(std::move(model)),
        versions_(model_.versions()),
        options_(model_.with_weights(std::move(options))),
        keeps_(std::move(keeps)),
        operators_(std::move(operators)),
        may_load_(may_load) {}
  Status plan_in(const std::shared_ptr<Framework>& framework);

  const ModelFile model_;
  const std::vector<std::pair<off_t, std::int64_t>> versions_;
  const LoadOptions options_;
  const std::vector<std::int32_t> keeps_;
  const std::vector<std::string> operators_;
  const bool may_load_;
  std::mutex mutex_;
  std::shared_ptr<Framework> framework_;  // that keeps the plan
  unsigned forks_ = 0;
  Plan plan_;
};

// A group of a plan.
class PlannedSource : public Source {
 public:
  PlannedSource(std::shared_ptr<PlannedModel> model, std::vector<std::int32_t> nodes)
      : model_(std::move(model)), nodes_(std::move(nodes)) {}
  Result<LoadedModel> load(const std::shared_ptr<Framework>& framework) override;

 private:
  const std::shared_ptr<PlannedModel> model_;
  const std::vector<std::int32_t> nodes_;
};

// A file of its own.
class FileSource : public Source {
 public:
  FileSource(ModelFile model, LoadOptions options)
      : model_(std::move(model)), options_(model_.with_weights(std::move(options))) {}
  Result<LoadedModel> load(const std::shared_ptr<Framework>& framework) override;

 private:
  const ModelFile model_;
  const LoadOptions options_;
};

}  // namespace nnhal::client

#endif  // NNHAL_CLIENT_SESSION_H_
