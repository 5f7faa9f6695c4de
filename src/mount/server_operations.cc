// From C to Server. No exception may reach libfuse: what can be thrown is the end of memory, and
// the program that asked is told.
#include <cerrno>
#include <exception>

#include "base/log.h"
#include "mount/server.h"

namespace penstock::mount {

namespace {

template <typename>
struct Request;

// The C function for a method of Server: the same arguments.
template <typename... Arguments>
struct Request<void (Server::*)(fuse_req_t, Arguments...)> {
  template <auto kMethod>
  static void call(fuse_req_t request, Arguments... arguments) {
    try {
      auto& server = *static_cast<Server*>(fuse_req_userdata(request));
      server.begin();
      (server.*kMethod)(request, arguments...);
    } catch (const std::exception& error) {
      log_error("a request failed", {{"error", error.what()}});
      fuse_reply_err(request, ENOMEM);
    }
  }
};

template <auto kMethod>
constexpr auto kCall = &Request<decltype(kMethod)>::template call<kMethod>;

fuse_lowlevel_ops make_operations() {
  fuse_lowlevel_ops operations{};
  operations.init = [](void* server, fuse_conn_info* connection) {
    static_cast<Server*>(server)->init(connection);
  };
  operations.destroy = [](void* server) { static_cast<Server*>(server)->destroy(); };
  operations.lookup = kCall<&Server::lookup>;
  operations.forget = kCall<&Server::forget>;
  operations.forget_multi = kCall<&Server::forget_multi>;
  operations.getattr = kCall<&Server::getattr>;
  operations.setattr = kCall<&Server::setattr>;
  operations.readlink = kCall<&Server::readlink>;
  operations.mknod = kCall<&Server::mknod>;
  operations.mkdir = kCall<&Server::mkdir>;
  operations.symlink = kCall<&Server::symlink>;
  operations.create = kCall<&Server::create>;
  operations.link = kCall<&Server::link>;
  operations.unlink = kCall<&Server::unlink>;
  operations.rmdir = kCall<&Server::rmdir>;
  operations.rename = kCall<&Server::rename>;
  operations.open = kCall<&Server::open>;
  operations.flush = kCall<&Server::flush>;
  operations.read = kCall<&Server::read>;
  operations.write = kCall<&Server::write>;
  operations.fsync = kCall<&Server::fsync>;
  operations.opendir = kCall<&Server::opendir>;
  operations.readdir = kCall<&Server::readdir>;
  operations.readdirplus = kCall<&Server::readdirplus>;
  operations.fsyncdir = kCall<&Server::fsyncdir>;
  operations.statfs = kCall<&Server::statfs>;
  operations.setxattr = kCall<&Server::setxattr>;
  operations.getxattr = kCall<&Server::getxattr>;
  operations.listxattr = kCall<&Server::listxattr>;
  operations.removexattr = kCall<&Server::removexattr>;
  operations.fallocate = kCall<&Server::fallocate>;
  operations.copy_file_range = kCall<&Server::copy_file_range>;
  operations.lseek = kCall<&Server::lseek>;
  return operations;
}

}  // namespace

const fuse_lowlevel_ops& server_operations() {
  static const fuse_lowlevel_ops operations = make_operations();
  return operations;
}

}  // namespace penstock::mount
