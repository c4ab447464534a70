#include "models.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "failures.h"
#include "layout.h"
#include "pools.h"

namespace nnhal {
namespace {

constexpr int kMostPools = 4096;
constexpr int kMostExtensions = 1024;
constexpr int kMostPrefix = 0x7FFF;
constexpr int kDeepest = 64;  // subgraphs in one another
constexpr int kLastOperation = v1::OperationType_MAX;
constexpr int kLastType = v1::OperandType_MAX;

bool is_written(const v1::Operand& operand) {
  return operand.lifetime() == v1::OPERAND_LIFE_TIME_TEMPORARY_VARIABLE ||
         operand.lifetime() == v1::OPERAND_LIFE_TIME_SUBGRAPH_OUTPUT;
}

std::string lifetime_name(int lifetime) {
  const std::string name = v1::OperandLifeTime_Name(static_cast<v1::OperandLifeTime>(lifetime));
  return name.empty() ? std::to_string(lifetime) : name.substr(std::string("OPERAND_LIFE_TIME_").size());
}

bool is_extension_name(const std::string& name) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_'; };
  return name.find('.') != std::string::npos && std::all_of(name.begin(), name.end(), fits);
}

// Checks one model. Each method checks one thing, and throws INVALID_ARGUMENT.
class Check {
 public:
  Check(const v1::Model& model, const std::vector<PoolSource>& pools) : model_(model), pools_(pools) {}

  void all() {
    extensions();
    subgraph(model_.main(), "");
    for (int i = 0; i < model_.referenced_size(); i++) {
      subgraph(model_.referenced(i), text(" of referenced subgraph ", i));
    }
    depth(model_.main(), 0);
  }

 private:
  void extensions() {
    std::set<std::string> names;
    if (model_.extension_name_to_prefix_size() > kMostExtensions) {
      invalid_argument(model_.extension_name_to_prefix_size(), " extensions, expected at most ", kMostExtensions);
    }
    for (const auto& entry : model_.extension_name_to_prefix()) {
      if (!is_extension_name(entry.name())) {
        invalid_argument("extension name '", entry.name(),
                         "': expected lower-case letters, digits, '.' and '_' with at least one dot");
      }
      if (entry.prefix() < 1 || entry.prefix() > kMostPrefix) {
        invalid_argument("extension '", entry.name(), "' has prefix ", entry.prefix(), ", expected 1 to ", kMostPrefix);
      }
      if (!names.insert(entry.name()).second) invalid_argument("extension names are not unique: '", entry.name(), "'");
      if (!prefixes_.insert(entry.prefix()).second) {
        invalid_argument("extension prefixes are not unique: ", entry.prefix());
      }
    }
  }

  void subgraph(const v1::Subgraph& graph, const std::string& suffix) {
    if (graph.operands().empty() || graph.operations().empty()) {
      invalid_argument("subgraph", suffix.empty() ? " main" : suffix, " has ", graph.operands_size(), " operands and ",
                       graph.operations_size(), " operations, expected at least one of each");
    }
    for (int i = 0; i < graph.operands_size(); i++) operand(graph.operands(i), text("operand ", i, suffix));
    listed(graph, graph.input_indexes(), v1::OPERAND_LIFE_TIME_SUBGRAPH_INPUT, "input", suffix);
    listed(graph, graph.output_indexes(), v1::OPERAND_LIFE_TIME_SUBGRAPH_OUTPUT, "output", suffix);
    data_flow(graph, suffix);
  }

  void operand(const v1::Operand& operand, const std::string& place) {
    type(operand, place);
    dimensions(operand, place);
    quantization(operand, place);
    location(operand, place);
  }

  void type(const v1::Operand& operand, const std::string& place) {
    const int code = operand.type();
    if (layout::is_extension(code)) {
      if (prefixes_.count(code >> 16) == 0) {
        invalid_argument(place, " has type ", layout::type_name(code), ", whose prefix ", code >> 16,
                         " the model maps to no extension");
      }
    } else if (code < 0 || code > kLastType) {
      invalid_argument(place, " has type ", code, ", expected 0 to ", kLastType);
    }
    if (operand.lifetime() < 0 || operand.lifetime() > v1::OperandLifeTime_MAX) {
      invalid_argument(place, " has lifetime ", static_cast<int>(operand.lifetime()), ", expected 0 to ",
                       static_cast<int>(v1::OperandLifeTime_MAX));
    }
    if ((code == v1::OPERAND_TYPE_SUBGRAPH) != (operand.lifetime() == v1::OPERAND_LIFE_TIME_SUBGRAPH)) {
      invalid_argument(place, " has type ", layout::type_name(code), " and lifetime ", lifetime_name(operand.lifetime()),
                       "; type SUBGRAPH and lifetime SUBGRAPH go together");
    }
  }

  void dimensions(const v1::Operand& operand, const std::string& place) {
    const Dimensions dimensions = layout::dimensions_of(operand.dimensions());
    if (dimensions.size() > layout::kMostAxes) {
      invalid_argument(place, " has rank ", dimensions.size(), ", expected at most ", layout::kMostAxes);
    }
    if (std::any_of(dimensions.begin(), dimensions.end(), [](std::int32_t each) { return each < 0; })) {
      invalid_argument(place, " has dimensions ", described(dimensions), ", expected 0 or more for each axis");
    }
    if (!dimensions.empty() && (layout::is_scalar(operand.type()) || operand.type() == v1::OPERAND_TYPE_SUBGRAPH)) {
      invalid_argument(place, " is a ", layout::type_name(operand.type()), " with dimensions ", described(dimensions),
                       ", expected none");
    }
    const std::int64_t bytes = layout::bytes_of(operand.type(), dimensions);
    if (bytes > layout::kMostBytes) {
      invalid_argument(place, " takes ", bytes, " bytes, expected at most ", layout::kMostBytes);
    }
    const bool is_constant = operand.lifetime() == v1::OPERAND_LIFE_TIME_CONSTANT_COPY ||
                             operand.lifetime() == v1::OPERAND_LIFE_TIME_CONSTANT_POOL;
    if (is_constant && !layout::is_extension(operand.type()) && !layout::is_known(operand.type(), dimensions)) {
      invalid_argument(place, " is a constant with dimensions ", described(dimensions), ", expected all known");
    }
  }

  void quantization(const v1::Operand& operand, const std::string& place) {
    const float scale = operand.scale();
    const std::string name = layout::type_name(operand.type());
    int low = 0, high = 0;
    bool is_scaled = true;
    switch (operand.type()) {
      case v1::OPERAND_TYPE_TENSOR_QUANT8_ASYMM: high = 255; break;
      case v1::OPERAND_TYPE_TENSOR_QUANT8_ASYMM_SIGNED: low = -128, high = 127; break;
      case v1::OPERAND_TYPE_TENSOR_QUANT16_ASYMM: high = 65535; break;
      case v1::OPERAND_TYPE_TENSOR_QUANT8_SYMM: case v1::OPERAND_TYPE_TENSOR_QUANT16_SYMM: break;
      default: is_scaled = false;
    }
    if (!std::isfinite(scale)) invalid_argument(place, " has scale ", scale, ", expected a finite number");
    if (is_scaled && scale <= 0) {
      invalid_argument(place, " (", name, ") has scale ", scale, ", expected more than 0");
    }
    const bool is_bias = operand.type() == v1::OPERAND_TYPE_TENSOR_INT32;
    if (is_bias && scale < 0) invalid_argument(place, " (TENSOR_INT32) has scale ", scale, ", expected 0 or more");
    if (!is_scaled && !is_bias && scale != 0) {
      invalid_argument(place, " (", name, ") has scale ", scale, ", expected 0");
    }
    if (operand.zero_point() < low || operand.zero_point() > high) {
      invalid_argument(place, " (", name, ") has zero point ", operand.zero_point(), ", expected ",
                       high ? text(low, " to ", high) : "0");
    }
    extra_params(operand, place);
  }

  void extra_params(const v1::Operand& operand, const std::string& place) {
    const v1::OperandExtraParams& params = operand.extra_params();
    if (operand.type() != v1::OPERAND_TYPE_TENSOR_QUANT8_SYMM_PER_CHANNEL) {
      const bool is_vendors = params.has_extension() && layout::is_extension(operand.type());
      if (params.params_case() != v1::OperandExtraParams::PARAMS_NOT_SET && !is_vendors) {
        invalid_argument(place, " (", layout::type_name(operand.type()), ") has extra parameters, expected none");
      }
      return;
    }
    if (!params.has_channel_quant()) invalid_argument(place, " has a per-channel type but no channel quantisation");
    const v1::SymmPerChannelQuantParams& quant = params.channel_quant();
    if (quant.channel_dim() < 0 || quant.channel_dim() >= operand.dimensions_size()) {
      invalid_argument(place, " has channel dimension ", quant.channel_dim(), ", expected an axis of ",
                       described(operand.dimensions()));
    }
    const int channels = operand.dimensions(quant.channel_dim());
    if (channels == 0 || channels != quant.scales_size()) {
      invalid_argument(place, " has ", quant.scales_size(), " channel scales, expected ",
                       channels ? std::to_string(channels) : "a known number", ": one for each channel");
    }
    for (const float scale : quant.scales()) {
      if (!std::isfinite(scale) || scale <= 0) {
        invalid_argument(place, " has channel scales that are not all finite and above 0");
      }
    }
  }

  void location(const v1::Operand& operand, const std::string& place) {
    const v1::DataLocation& at = operand.location();
    const std::string said = text("pool ", at.pool_index(), ", offset ", at.offset(), ", length ", at.length(),
                                  ", padding ", at.padding());
    if (at.pool_index() < 0 || at.offset() < 0 || at.length() < 0 || at.padding() < 0) {
      invalid_argument(place, " has a negative number in its location (", said, ")");
    }
    switch (operand.lifetime()) {
      case v1::OPERAND_LIFE_TIME_SUBGRAPH:
        if (at.pool_index() != 0 || at.length() != 0 || at.padding() != 0) {
          invalid_argument(place, " refers to a subgraph by its offset, expected 0 in the rest of its location");
        }
        if (at.offset() >= model_.referenced_size()) {
          invalid_argument(place, " refers to subgraph ", at.offset(), ", but there are ", model_.referenced_size(),
                           " subgraphs");
        }
        break;
      case v1::OPERAND_LIFE_TIME_CONSTANT_COPY:
        if (at.pool_index() != 0) {
          invalid_argument(place, " is CONSTANT_COPY with pool index ", at.pool_index(), ", expected 0");
        }
        range(operand, model_.operand_values().size(), "the operand values", place);
        break;
      case v1::OPERAND_LIFE_TIME_CONSTANT_POOL:
        if (at.pool_index() >= static_cast<int>(pools_.size())) {
          invalid_argument(place, " lies in pool ", at.pool_index(), ", but there are ", pools_.size(), " pools");
        }
        range(operand, pools_[at.pool_index()].size, text("pool ", at.pool_index()), place);
        break;
      default:
        if (at.pool_index() != 0 || at.offset() != 0 || at.length() != 0 || at.padding() != 0) {
          invalid_argument(place, " is not a constant but has location (", said, ")");
        }
    }
  }

  void range(const v1::Operand& operand, std::int64_t available, const std::string& what, const std::string& place) {
    const v1::DataLocation& at = operand.location();
    if (at.padding() != 0) invalid_argument(place, " is a constant with padding ", at.padding(), ", expected 0");
    if (at.length() > available || at.offset() > available - at.length()) {
      invalid_argument(place, " lies at bytes ", at.offset(), " to ", static_cast<double>(at.offset()) + at.length(),
                       " of ", what, ", which has ", available);
    }
    const std::int64_t bytes = layout::bytes_of(operand.type(), layout::dimensions_of(operand.dimensions()));
    if (layout::element_bytes(operand.type()) != 0 && at.length() != bytes) {
      invalid_argument(place, " has ", at.length(), " bytes, expected ", bytes);
    }
  }

  template <class Indexes>
  void listed(const v1::Subgraph& graph, const Indexes& indexes, int lifetime, const char* what,
              const std::string& suffix) {
    std::set<int> known;
    for (const int index : indexes) {
      if (index < 0 || index >= graph.operands_size()) {
        invalid_argument(what, " list", suffix, " names operand ", index, ", expected 0 to ", graph.operands_size() - 1);
      }
      if (graph.operands(index).lifetime() != lifetime) {
        invalid_argument("operand ", index, suffix, " is listed as ", what, " but has lifetime ",
                         lifetime_name(graph.operands(index).lifetime()));
      }
      if (!known.insert(index).second) {
        invalid_argument(what, " list", suffix, " names an operand twice: ", index);
      }
    }
    for (int i = 0; i < graph.operands_size(); i++) {
      if (graph.operands(i).lifetime() == lifetime && known.count(i) == 0) {
        invalid_argument("operand ", i, suffix, " has lifetime ", lifetime_name(lifetime), " but is not in the ", what,
                         " list");
      }
    }
  }

  void data_flow(const v1::Subgraph& graph, const std::string& suffix) {
    std::set<int> written;
    for (int number = 0; number < graph.operations_size(); number++) {
      const v1::Operation& operation = graph.operations(number);
      const std::string place = text("operation ", number, suffix);
      operation_type(operation.type(), place);
      for (int i = 0; i < operation.inputs_size(); i++) {
        const int index = operation.inputs(i);
        require_operand(graph, index, text(place, ": input ", i));
        if (is_written(graph.operands(index)) && written.count(index) == 0) {
          invalid_argument(place, ": input ", i, " is operand ", index, ", which no earlier operation writes");
        }
      }
      for (int i = 0; i < operation.outputs_size(); i++) {
        const int index = operation.outputs(i);
        require_operand(graph, index, text(place, ": output ", i));
        if (!is_written(graph.operands(index))) {
          invalid_argument(place, ": output ", i, " is operand ", index, ", whose lifetime ",
                           lifetime_name(graph.operands(index).lifetime()), " must not be written");
        }
        if (!written.insert(index).second) {
          invalid_argument(place, ": output ", i, " is operand ", index, ", which an earlier operation already writes");
        }
      }
    }
    for (int i = 0; i < graph.operands_size(); i++) {
      if (is_written(graph.operands(i)) && written.count(i) == 0) {
        invalid_argument("operand ", i, suffix, " has lifetime ", lifetime_name(graph.operands(i).lifetime()),
                         " but no operation writes it");
      }
    }
  }

  static void require_operand(const v1::Subgraph& graph, int index, const std::string& place) {
    if (index < 0 || index >= graph.operands_size()) {
      invalid_argument(place, " is operand ", index, ", expected 0 to ", graph.operands_size() - 1);
    }
  }

  void operation_type(int type, const std::string& place) const {
    if (layout::is_extension(type)) {
      if (prefixes_.count(type >> 16) == 0) {
        invalid_argument(place, " has type ", layout::operation_name(type), ", whose prefix the model maps to no extension");
      }
    } else if (type < 0 || type > kLastOperation) {
      invalid_argument(place, " has type ", type, ", expected 0 to ", kLastOperation);
    }
  }

  // Subgraphs must not contain one another in a circle, nor too deep. A depth that was found once is not searched again.
  int depth(const v1::Subgraph& graph, int above) {
    if (above > kDeepest) {
      invalid_argument("subgraphs contain one another, or are nested deeper than ", kDeepest, " levels");
    }
    int deepest = 0;
    for (const v1::Operand& operand : graph.operands()) {
      if (operand.lifetime() != v1::OPERAND_LIFE_TIME_SUBGRAPH) continue;
      const int index = static_cast<int>(operand.location().offset());
      const auto known = depths_.find(index);
      const int below = known != depths_.end() ? known->second : depth(model_.referenced(index), above + 1);
      depths_[index] = below;
      deepest = std::max(deepest, below + 1);
      if (above + deepest > kDeepest) {
        invalid_argument("subgraphs are nested deeper than ", kDeepest, " levels");
      }
    }
    return deepest;
  }

  const v1::Model& model_;
  const std::vector<PoolSource>& pools_;
  std::set<int> prefixes_;
  std::map<int, int> depths_;
};

}  // namespace

std::shared_ptr<const Model> received_model(v1::Model message, const DescriptorTable& descriptors) {
  if (message.pools_size() > kMostPools) {
    invalid_argument(message.pools_size(), " pools of the model, expected at most ", kMostPools);
  }
  std::vector<PoolSource> sources;
  for (int i = 0; i < message.pools_size(); i++) {
    sources.push_back(described_pool(message.pools(i), descriptors, text("pool ", i, " of the model")));
  }
  Check(message, sources).all();
  std::vector<bool> is_used(sources.size());
  const auto use = [&is_used](const v1::Subgraph& graph) {
    for (const v1::Operand& operand : graph.operands()) {
      if (operand.lifetime() == v1::OPERAND_LIFE_TIME_CONSTANT_POOL) is_used[operand.location().pool_index()] = true;
    }
  };
  use(message.main());
  for (const v1::Subgraph& graph : message.referenced()) use(graph);
  std::vector<std::shared_ptr<const void>> keeps;
  std::vector<Bytes> pools(sources.size());
  for (std::size_t i = 0; i < sources.size(); i++) {
    if (!is_used[i]) continue;
    const auto pool = Pool::open(sources[i], false);
    pools[i] = {pool->data(), static_cast<std::size_t>(pool->size())};
    keeps.push_back(pool);
    if (pool->data() != nullptr) continue;
    // A file that may shrink is read once: constants must not change or vanish while they are used.
    const auto copy = std::make_shared<std::vector<char>>(pool->size());
    pool->read(0, copy->data(), copy->size());
    pools[i].data = copy->data();
    keeps.back() = copy;
  }
  return std::make_shared<const Model>(std::move(message), std::move(keeps), std::move(pools));
}

std::string described_operation(const v1::Model& model, int index) {
  return text("operation ", index, " (", layout::operation_name(model.main().operations(index).type()), ")");
}

std::string summary_of(const v1::Model& model) {
  constexpr std::size_t kMostKinds = 3;
  std::map<std::string, int> counts;
  for (const v1::Operation& operation : model.main().operations()) counts[layout::operation_name(operation.type())]++;
  std::vector<std::pair<std::string, int>> kinds(counts.begin(), counts.end());
  std::stable_sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  const int total = model.main().operations_size();
  std::string words = text(total, " operation", total > 1 ? "s" : "", ":");
  for (std::size_t i = 0; i < kinds.size() && i < kMostKinds; i++) {
    words += text(i > 0 ? ", " : " ", total > 1 ? text(kinds[i].second, " ") : "", kinds[i].first);
  }
  return words + (kinds.size() > kMostKinds ? " and others" : "");
}

}  // namespace nnhal
