// What things are called in a directory of checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::checkpoint {

inline constexpr std::string_view kLatestName = "latest";
inline constexpr std::string_view kLockName = ".penstock-checkpoints.lock";
// Of what is being written or deleted: nobody looks inside, and who opens the directory next removes it.
inline constexpr std::string_view kTemporaryPrefix = ".penstock-tmp-";
// Of what had a name that is being given to another: it gets it back unless the other has it.
inline constexpr std::string_view kAsidePrefix = ".penstock-aside-";

// "step-0000001000"
std::string step_name(uint64_t step);
std::optional<uint64_t> parse_step_name(std::string_view name);
// "data-00000.safetensors"
std::string data_name(size_t index);
// Of one rank of several: "rank-00001-00000.safetensors". Never of an earlier try.
std::string rank_data_name(uint32_t rank, uint32_t retry, size_t index);
// Whether a checkpoint may be called so.
bool is_checkpoint_name(std::string_view name);
// 16 hexadecimal digits that nobody had before.
std::string make_nonce();
// ".penstock-aside-NAME"
std::string aside_name(std::string_view name);
std::string join(std::string_view directory, std::string_view name);

}  // namespace penstock::checkpoint
