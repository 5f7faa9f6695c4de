// Writes to a store until something fails, telling every step; or tells what a store holds.
// test_power_cut.py pulls the plug.
//
//   store_writer write ADDRESS SEED     put KEY VERSION | remove KEY VERSION | flushed        one
//   line before or after each store_writer dump ADDRESS           KEY VERSION | KEY torn
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "penstock/store.h"

namespace {

using namespace penstock;

// An object tells who it is, and the rest follows from that: a torn one shows.
std::vector<std::byte> contents(const std::string& key, uint64_t version) {
  std::mt19937_64 random(std::hash<std::string>{}(key) ^ version * 0x9E3779B97F4A7C15ULL);
  std::vector<uint64_t> words(2 + random() % (random() % 8 == 0 ? 40000 : 600));
  words[0] = version;
  words[1] = words.size();
  for (size_t i = 2; i < words.size(); ++i) words[i] = random();
  const auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

// One write per line: what was printed before the plug is pulled has been printed.
void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) std::exit(3);
}

Result<void> write_until_failure(store::ObjectStore& objects, unsigned seed) {
  std::mt19937 random(seed);
  for (uint64_t version = 1;; ++version) {
    const std::string key = fmt::format("d{}/key-{}", random() % 4, random() % 40);
    if (random() % 6 == 0) {
      say(fmt::format("remove {} {}", key, version));
      PENSTOCK_TRY(objects.remove(key));
    } else {
      say(fmt::format("put {} {}", key, version));
      PENSTOCK_TRY(objects.put(key, contents(key, version)));
    }
    // Sometimes often, so that single files are synced; sometimes seldom, so that the whole file
    // system is.
    if (random() % (version / 200 % 2 == 0 ? 5 : 100) != 0) continue;
    PENSTOCK_TRY(objects.flush());
    say("flushed");
  }
}

Result<void> dump(store::ObjectStore& objects) {
  std::vector<std::string> keys;
  PENSTOCK_TRY(store::for_each_object(objects, "", [&](const store::ObjectInfo& object) {
    keys.push_back(object.key);
    return true;
  }));
  for (const std::string& key : keys) {
    const std::vector<std::byte> bytes = PENSTOCK_TRY(store::read_object(objects, key, 16 * kMiB));
    uint64_t version = 0;
    if (bytes.size() >= sizeof(version)) std::memcpy(&version, bytes.data(), sizeof(version));
    const bool whole = bytes == contents(key, version);
    say(fmt::format("{} {}", key, whole ? std::to_string(version) : "torn"));
  }
  return {};
}

Result<void> run(const std::string& verb, const std::string& address, unsigned seed) {
  const auto objects = PENSTOCK_TRY(store::open_store(address, {}));
  return verb == "write" ? write_until_failure(*objects, seed) : dump(*objects);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: store_writer write|dump ADDRESS [SEED]\n");
    return 2;
  }
  const Result<void> ran =
      run(argv[1], argv[2], argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 0);
  if (ran.ok()) return 0;
  fmt::print(stderr, "{}\n", ran.error().to_string());
  return 1;
}
