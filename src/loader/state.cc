#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "penstock/loader.h"

namespace penstock::loader {

namespace {

using Json = nlohmann::json;
constexpr int kVersion = 1;

Error bad_state(std::string_view why) {
  return make_error(ErrorCode::kInvalid, fmt::format("not the state of a loader: {}", why));
}

}  // namespace

std::string State::to_text() const {
  return Json{{"version", kVersion},
              {"epoch", epoch},
              {"position", position},
              {"seed", seed},
              {"shuffle", shuffle_name(shuffle)},
              {"streams", streams},
              {"window_samples", window_samples},
              {"samples", samples}}
      .dump();
}

Result<State> State::from_text(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return bad_state("no JSON object");
  State state;
  const auto number = [&](const char* name, auto& into) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number_unsigned()) return false;
    into = found->get<std::decay_t<decltype(into)>>();
    return true;
  };
  int version = 0;
  if (!number("version", version)) return bad_state("it has no version");
  if (version != kVersion)
    return bad_state(fmt::format("version {}, and this is for version {}", version, kVersion));
  if (!number("epoch", state.epoch) || !number("position", state.position) ||
      !number("seed", state.seed) || !number("streams", state.streams) ||
      !number("window_samples", state.window_samples))
    return bad_state("a number is missing");
  const auto shuffle = json.find("shuffle");
  if (shuffle == json.end() || !shuffle->is_string()) return bad_state("it has no shuffle");
  state.shuffle = PENSTOCK_TRY(parse_shuffle(shuffle->get_ref<const std::string&>()));
  const auto samples = json.find("samples");
  if (samples == json.end() || !samples->is_array()) return bad_state("it has no samples");
  for (const Json& one : *samples) {
    if (!one.is_number_unsigned()) return bad_state("samples are no numbers");
    state.samples.push_back(one.get<uint64_t>());
  }
  return state;
}

}  // namespace penstock::loader
