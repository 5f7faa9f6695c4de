// Where volumes are, by name: $PENSTOCK_HOME (default ~/.penstock).
//
//   HOME/volumes/NAME/         the directory of a host, whose volume has that name
//   HOME/volumes/NAME          a file: the volume is in another host (a clone)
// Threads: all calls from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "penstock/io.h"
#include "penstock/result.h"

namespace penstock::volume {

struct VolumeAddress {
  std::string directory;  // Of the host.
  std::string name;       // Of the volume in it; empty: the one that it was made for.
};

class Registry {
 public:
  // `fs` outlives it.
  Registry(io::FileSystem& fs, std::string home) : fs_(fs), home_(std::move(home)) {}
  // From the environment. kInvalid when there is neither $PENSTOCK_HOME nor $HOME.
  static Result<Registry> of_user(io::FileSystem& fs);

  // "NAME", a directory ("./train", "/data/train"), or either with "#NAME", and with "sqlite:" before
  // it. kNotFound says which names there are.
  Result<VolumeAddress> resolve(std::string_view text) const;
  // Where a new volume of this name goes. kExists when the name is taken, kInvalid when it is none.
  Result<std::string> new_directory(std::string_view name) const;
  Result<void> add_alias(std::string_view name, const VolumeAddress& address) const;
  // Of what is an alias; a host stays where it is.
  Result<void> remove_alias(std::string_view name) const;
  Result<std::vector<std::string>> names() const;

 private:
  std::string folder() const { return home_ + "/volumes"; }
  std::string path_of(std::string_view name) const { return folder() + "/" + std::string(name); }
  Result<VolumeAddress> read_alias(std::string_view name) const;

  io::FileSystem& fs_;
  std::string home_;
};

// Nothing, or why this is no name for a volume.
Result<void> check_volume_name(std::string_view name);

}  // namespace penstock::volume
