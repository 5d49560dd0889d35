// The program's memory: its mappings, those that it shares with other processes, and what the image of its start is
// made of.
#pragma once

#include "core/shim/patch.h"
#include "core/shim/trace.h"

namespace friday::shim {

// ---- shared.cc: memory that several processes map
// What the kernel mapped at `address` is shared: notes contents, joins the group. False: the recording has ended.
bool shared_record_map(uint64_t device, uint64_t inode, int fd, uint64_t offset, uint64_t address, uint64_t length,
                       bool readable, format::SharedMapPart* part);
// The same of memory without a name, which only forked children will have: anonymous, or of /dev/zero, which has an
// offset.
bool shared_record_inherited(uint64_t address, uint64_t length, uint64_t offset, format::SharedMapPart* part);
bool shared_wanted(const uint64_t* a, const FileStat& st);  // of mmap(2); st: zeros if it is no file
const format::SharedMapPart* shared_part(const format::EventRecord* event);
// A mapping has grown by mremap(2), by `length` at `address`: notes what is seen there. False: it is not shared, or the
// recording has ended.
bool shared_record_growth(uint64_t address, uint64_t length, format::SharedMapPart* part);
void shared_replay_growth(const format::SharedMapPart* part);
long shared_replay_map(const format::SharedMapPart* part, uint64_t length, uint64_t protection, bool fixed);
struct ChangedFile {
  uint32_t object;  // its number; 0: none
  uint64_t size;    // before the change
};
ChangedFile shared_changed(const CallFrame* frame);  // the mapped file that a call would change
ChangedFile shared_to_change(
    const CallFrame* frame);  // the same, for a call that is about to be made: it is this process's turn then
// What it changed, step by step. Contents that the program never had go into the trace.
struct SharedChanges {
  format::SharedWritePart steps[5];
  unsigned count = 0;
  bool known = true;  // false: what the call has put into the file cannot be read back
  void add(uint32_t object, uint64_t offset, uint64_t length, format::SharedChange change);
};
SharedChanges shared_record_changes(const CallFrame* frame, ChangedFile file, long result);
void shared_replay_changes(const format::EventRecord* event, const CallFrame* frame);
long do_shmat(CallFrame* frame, ThreadArea* area);
long do_shmdt(CallFrame* frame, ThreadArea* area);

// ---- memory.cc: mapping calls
long do_mmap(CallFrame* frame, ThreadArea* area);
long do_brk(CallFrame* frame, ThreadArea* area);
long do_mremap(CallFrame* frame, ThreadArea* area);
long do_mprotect(CallFrame* frame, ThreadArea* area);
long do_madvise(CallFrame* frame, ThreadArea* area);
void path_of_descriptor(int fd, char* out, size_t size);  // empty if it has none
struct DescriptorLink {                                   // its name below /proc/self/fd
  char text[28] = "/proc/self/fd/";
  explicit DescriptorLink(int fd);
};
bool advice_changes_memory(uint64_t advice);                          // of madvise(2)
void replay_setting(const CallFrame* frame, const ThreadArea* area);  // personality, setrlimit, prlimit64
long do_io_setup(CallFrame* frame, ThreadArea* area);                 // Linux AIO: its ring is a mapping
long do_io_destroy(CallFrame* frame, ThreadArea* area);
long native_mapping(long call, const uint64_t* arguments);  // at replay: a mapping call as it is, with the watches told

// ---- hidden.cc
void hide_data(const uint64_t* auxv);  // from those who ask the loader what is loaded where

// ---- image.cc
void image_prepare(const HelloReply& hello, const uint64_t* auxv);  // what friday_snapshot does not see by itself
void module_note(const ModuleReply& reply, const ModuleView& module, uint64_t device, uint64_t inode,
                 const PatchedModule& sites);
// The copy that serves a mapping of the start image; zeros if none.
struct FileNote {
  uint64_t device, inode, size;
  uint8_t file[16];
};
inline constexpr unsigned kMaxFileNotes = 1024;
extern FileNote file_notes[kMaxFileNotes];
extern unsigned file_note_count;
extern format::ImageRecord image_registers;
// The components of vector state that the recording machine had and that we keep: x87, SSE, AVX, AVX-512; and the bytes
// of all of them.
inline uint64_t state_mask() { return image_registers.xcr0 & 0xe7; }
inline constexpr uint32_t kMostState = 2688;
struct MapLine {
  uint64_t low, high, offset, device, inode;
  uint32_t protection;
  bool shared;
  char path[format::kPathBytes];
};
const char* parse_map_line(const char* text, MapLine* out);  // next line, or null at the end
char* read_maps();                                           // whole /proc/self/maps in a static buffer

}  // namespace friday::shim
