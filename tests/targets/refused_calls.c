// Every call that is refused: the program sees ENOSYS and goes on, as on a kernel without it.
#include "check.h"

int main(void) {
  const int calls[] = {134 /* uselib */, 139 /* sysfs */, 154 /* modify_ldt */, 156 /* _sysctl */, 172 /* iopl */, 173 /* ioperm */,
                       174, 177, 178 /* modules of old */, 179 /* quotactl */, 180 /* nfsservctl */, 181, 182, 183, 184, 185 /* never were */,
                       205 /* set_thread_area */, 211, 212 /* lookup_dcookie */, 214, 215, 216 /* remap_file_pages */, 236 /* vserver */,
                       246 /* kexec_load */, 298 /* perf_event_open */, 320 /* kexec_file_load */, 321 /* bpf */, 323 /* userfaultfd */,
                       329, 330, 331 /* protection keys */, 333 /* io_pgetevents */, 334 /* rseq */, 336 /* uprobe */, 425, 426, 427 /* io_uring */, 435 /* clone3 */,
                       443 /* quotactl_fd */, 447 /* memfd_secret */, 453 /* map_shadow_stack */, 459, 460, 461 /* lsm */, 462 /* mseal */};
  int there = 0;
  for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) there += syscall(calls[i], 0, 0, 0, 0, 0, 0) != -1 || errno != ENOSYS;
  printf("%s\n", there ? "some are there" : "none is there");
  CHECK(getppid() > 0);
  return success();
}
