// What the shim asks of the collector over its socket (Request of shim_abi.h).
#pragma once

#include "core/shim/runtime.h"

namespace friday::shim {

// ---- collector.cc
bool collector_hello(int socket, HelloReply* reply, int* trace_fd, int* tokens_fd);
bool collector_module(uint64_t low, uint64_t high, uint64_t offset, uint64_t device, uint64_t inode, bool executable,
                      int fd, const char* path, ModuleReply** reply);
bool collector_fork(ForkReply* reply, int* trace_fd, int* socket_fd);
void collector_send(RequestKind kind, uint32_t reason, int detail, const char* text);
// A program is about to be executed, by this process or by its child by vfork; which, so that the collector can say
// what became of it. The child gets a socket of its own, for the node that it becomes.
void collector_executes(const char* path);
bool collector_spawn(const char* path, ForkReply* reply, int* socket_fd);
void collector_adopt(int socket);  // by a forked child
int& own_socket();                 // of the calling process: a child by vfork has descriptors of its own
bool collector_owns(int fd);
void collector_move();  // get out of the way of dup2(..., own_socket())

}  // namespace friday::shim
