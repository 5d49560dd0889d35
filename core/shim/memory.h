// The program's memory: calls that map and unmap it, memory that it shares with other processes, what is hidden of the
// shim's own, and the start image. All functions run under the token.
#pragma once

#include "core/shim/patch.h"
#include "core/shim/trace.h"

namespace friday::shim {

struct MapLine;

// ---- shared.cc: memory that several processes map
// While recording, after the kernel has mapped a file or a segment (device kSegmentDevice) as shared memory: the
// process joins the object's token group, and the present contents go into the trace. Fills in `part` for the call's
// event. `fd` is -1 for a segment; `readable` says whether a segment may be read. False: the recording has ended, or
// the process is on standby; it does nothing then, but `shared_on_standby` is set.
extern bool shared_on_standby;  // has mapped something that others may have mapped, too
bool shared_record_map(uint64_t device, uint64_t inode, int fd, uint64_t offset, uint64_t address, uint64_t length,
                       bool readable, format::SharedMapPart* part);
// The same for anonymous shared memory and for mappings of /dev/zero, which only forked children will share.
bool shared_record_inherited(uint64_t address, uint64_t length, uint64_t offset, format::SharedMapPart* part);
// Whether an mmap(2) with arguments `a` makes shared memory that needs this. `st`: of the file, zeros if there is none.
bool shared_wanted(const uint64_t* a, const FileStat& st);
const format::SharedMapPart* shared_part(const format::EventRecord* event);  // null if the event has none
// While recording, after mremap(2) has made a mapping longer by `length` at `address`: the contents there go into the
// trace. False: the mapping is not shared, or the recording has ended.
bool shared_record_growth(uint64_t address, uint64_t length, format::SharedMapPart* part);
// The shared object that the mapping shows, if it is one of those in `cut`.
const ObjectBefore* shared_before(const MapLine& map, const CutReply& cut);
// Behind the start image of a process that goes on in a new trace together with others: its mappings of the objects in
// `cut`, as events, and their contents. shared_replay_before makes them, before the program goes on.
void shared_record_before(ThreadArea* area, const CutReply& cut);
void shared_replay_before(CallFrame* frame, ThreadArea* area);
// At replay: what the two functions above have recorded. shared_replay_map returns the address or -errno.
void shared_replay_growth(const format::SharedMapPart* part);
long shared_replay_map(const format::SharedMapPart* part, uint64_t length, uint64_t protection, bool fixed);
// A file that processes have mapped as shared memory and that a call changes.
struct ChangedFile {
  uint32_t object;  // number of the shared object; 0: the call changes none
  uint64_t size;    // before the change
};
ChangedFile shared_changed(const CallFrame* frame);
// The same before the call is made. The process also joins the object's token group, so the file does not change
// between this and the call.
ChangedFile shared_to_change(const CallFrame* frame);
// What the call has changed, step by step. Contents that were never in the program's memory go into the trace.
struct SharedChanges {
  format::SharedWritePart steps[5];
  unsigned count = 0;
  bool known = true;  // false: the file's new contents cannot be read
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
void path_of_descriptor(int fd, char* out, size_t size);  // as /proc/self/fd shows it; empty if it has none
struct DescriptorLink {                                   // "/proc/self/fd/FD"
  char text[28] = "/proc/self/fd/";
  explicit DescriptorLink(int fd);
};
// Whether this advice (madvise(2)) changes contents or protection of memory, or what a forked child inherits.
bool advice_changes_memory(uint64_t advice);
// At replay, for a personality(2), setrlimit(2) or prlimit(2) that has succeeded: makes the settings on which later
// mappings of the program depend.
void replay_setting(const CallFrame* frame, const ThreadArea* area);
long do_io_setup(CallFrame* frame, ThreadArea* area);  // io_setup(2) maps a ring
long do_io_destroy(CallFrame* frame, ThreadArea* area);
// At replay: makes a mapping call, and tells the core if it touches watched memory.
long native_mapping(long call, const uint64_t* arguments);

// ---- file_copies.cc
// The collector's answer about the recording's copy of a regular file, given by `fd` and `st`; with `executable` it has
// the sites to be patched. Stores the file's path in `path`, which has kPathBytes bytes. The answer is valid until the
// next call; null: the collector did not answer.
ModuleReply* copy_of_file(int fd, const FileStat& st, bool executable, char* path);

// ---- hidden.cc
// Keeps the shim's data out of what dl_iterate_phdr(3) tells the program. `auxv` is the auxiliary vector
// (getauxval(3)).
void hide_data(const uint64_t* auxv);

// ---- image.cc
// Fills in image_registers, except for what friday_snapshot stores when it takes the start image.
void image_prepare(const HelloReply& hello, const uint64_t* auxv);
void image_renew();  // what changes of it while the process runs
void image_write();  // writes image_registers, and all mappings with their contents
// Writes a ModuleRecord.
void module_note(const ModuleReply& reply, const ModuleView& module, uint64_t device, uint64_t inode,
                 const PatchedModule& sites);
// A mapped file and the name of its copy in the recording; zeros if there is no copy.
struct FileNote {
  uint64_t device, inode, size;
  uint8_t file[16];
};
inline constexpr unsigned kMaxFileNotes = 1024;
extern FileNote file_notes[kMaxFileNotes];
extern unsigned file_note_count;
extern format::ImageRecord image_registers;
// The components of extended state (Intel SDM volume 1, chapter 13) that the recording machine has and Friday supports:
// x87, SSE, AVX and AVX-512. kMostState is the size of all of them in the standard form, in bytes.
inline uint64_t state_mask() { return image_registers.xcr0 & 0xe7; }
inline constexpr uint32_t kMostState = 2688;
// A line of /proc/PID/maps (proc(5)).
struct MapLine {
  uint64_t low, high, offset, device, inode;
  uint32_t protection;
  bool shared;
  char path[format::kPathBytes];
};
// Whether it is there for the recording only: the trace, the tokens, or what part.cc works with.
inline bool is_of_recorder(const MapLine& map) {
  return (map.low >= format::kWindowAddress && map.low < format::kWindowAddress + format::kWindowSize) ||
         (map.low >= kTokensAddress && map.low < kTokensAddress + sizeof(TokenArea)) ||
         (map.low >= kWorkspaceAddress && map.low < kOwnEnd);
}
const char* parse_map_line(const char* text, MapLine* out);  // returns the start of the next line, null at the end
const FileNote* file_note(const MapLine& map);               // null: nothing is known of a copy
char* read_maps();  // the whole of /proc/self/maps, in a static buffer that the next call overwrites

}  // namespace friday::shim
