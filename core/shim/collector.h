// The process's requests to the collector (shim_abi.h, RequestKind). Those with a reply wait for it. To be called under
// the token, as there is one request at a time.
#pragma once

#include "core/shim/runtime.h"

namespace friday::shim {

// ---- collector.cc
// Those that return bool return false if the collector has ended or refuses.
bool collector_hello(int socket, HelloReply* reply, int* trace_fd, int* tokens_fd);
// Asks for the copy of a mapped file and, with `executable`, for the sites in it. The reply is valid until the next
// request for a file.
struct ModuleQuestion {
  int fd;  // of the file; -1: the collector opens `path`, and checks that it has this inode
  const char* path;
  uint64_t inode;
  bool executable;
  bool mapped_writable;  // a recorded process has mapped the file so that it can change
};
bool collector_module(const ModuleQuestion& question, ModuleReply** reply);
bool collector_fork(ForkReply* reply, int* trace_fd, int* socket_fd);
// Asks for a trace in which this process goes on, with room for an image.
void collector_image_room(uint64_t bytes);  // kImageRoom
bool collector_part(uint64_t image_bytes, PartFor what, int* trace_fd);
void collector_parted(int image_fd);  // it does; -1: its image is written already
// All threads stand still (kHalted). Waits until the processes that share memory with this one do, too. False: they do
// not.
bool collector_halted(CutReply* reply);
// A message, or a piece of one, for the collector to send (kToSend).
struct HeldMessage {
  int fd;
  uint64_t inode, sent, length;  // of the end; its ShapedEnd::sent; of the whole message
  uint32_t flags;                // HeldFlag
  const char* bytes;
  uint64_t size;
  const char* address;  // of a datagram, `address_length` bytes (sockaddr(3type)); null: that of the connection
  uint32_t address_length;
};
bool collector_hold(const HeldMessage& held);
bool collector_send(RequestKind kind, uint32_t reason, int detail, const char* text, uint64_t inode = 0);
// A notice for the user: a text, and what it is about behind it. Cut to the size of a request's text.
void collector_notice(const char* text, const char* about);
// Announce that a program is about to be executed, so that the collector can say what became of it: by this process, or
// by its vfork child, which gets a socket of its own for the node that it becomes.
void collector_executes(const char* path);
bool collector_spawn(const char* path, ForkReply* reply, int* socket_fd);
void collector_adopt(int socket);  // in a forked child: its socket from now on
int& own_socket();                 // the descriptor of the calling process, which may be a vfork child; -1: none
bool collector_owns(int fd);
void collector_move();  // moves the socket to another descriptor, because the program is about to use its number

}  // namespace friday::shim
