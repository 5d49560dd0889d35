"""What the shim does to a program's code when it is loaded, and what the program must not notice of it."""
import subprocess

import pytest


def test_a_program_of_a_hundred_libraries(recorder, tmp_path):
    """All that is mapped when it begins is looked through: here some 500 mappings, and a time stamp is taken in each library."""
    count = 100
    (tmp_path / "part.c").write_text("unsigned long NAME(void) { return __builtin_ia32_rdtsc(); }\n")
    for index in range(count):
        subprocess.run(["/usr/bin/cc", "-shared", "-fPIC", "-O1", f"-DNAME=part{index}", "-o", tmp_path / f"libpart{index}.so", tmp_path / "part.c"], check=True)
    names = [f"part{index}" for index in range(count)]
    (tmp_path / "whole.c").write_text("#include <stdio.h>\n" + "".join(f"unsigned long {name}(void);\n" for name in names) +
                                      "int main(void) {\n  unsigned long sum = 0;\n" + "".join(f"  sum = sum * 3 + {name}();\n" for name in names) +
                                      "  return printf(\"%lu\\n\", sum) < 0;\n}\n")
    subprocess.run(["/usr/bin/cc", "-o", tmp_path / "whole", tmp_path / "whole.c", f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path}", *(f"-l{name}" for name in names)], check=True)
    recording = recorder.record([tmp_path / "whole"], name="it")
    assert recording.returncode == 0, recording.stderr
    events = recorder.run([recorder.friday, "dump", "--node", "it", recording.path]).stdout
    assert events.count("rdtsc") >= count
    recorder.verify(recording)


@pytest.mark.parametrize("loaded", ["at its start", "later"])
def test_a_library_whose_code_can_be_written(recorder, tmp_path, loaded):
    """Its segment is readable, writable and executable at once: it stays so after the shim has patched it."""
    (tmp_path / "part.c").write_text("""
        __asm__(".section .both,\\"awx\\",@progbits\\n .globl number\\n number: .long 41\\n .globl stamp\\n .type stamp,@function\\n stamp: rdtsc\\n nop\\n nop\\n nop\\n ret\\n .previous");
    """)
    (tmp_path / "whole.c").write_text("""
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int count, char** arguments) {
          void* part = count > 1 ? dlopen(arguments[1], RTLD_NOW) : RTLD_DEFAULT;
          int* number = dlsym(part, "number");
          ++*number;
          long (*stamp)(void) = dlsym(part, "stamp");
          return printf("%d %ld\\n", *number, stamp()) < 0;
        }
    """)
    library = tmp_path / "libpart.so"
    subprocess.run(["/usr/bin/cc", "-shared", "-fPIC", "-o", library, tmp_path / "part.c", "-Wl,--no-warn-rwx-segments"], check=True)
    linked = ["-Wl,--no-as-needed", library] if loaded == "at its start" else []
    subprocess.run(["/usr/bin/cc", "-o", tmp_path / "whole", tmp_path / "whole.c", *linked], check=True)
    recording = recorder.record([tmp_path / "whole", *([] if linked else [library])], name="it")
    assert (recording.returncode, recording.stdout.split()[:1]) == (0, ["42"]), recording
    recorder.verify(recording)
    stamps = [line for line in recorder.run([recorder.friday, "dump", "--node", "it", recording.path]).stdout.splitlines() if "rdtsc" in line]
    assert len(stamps) >= 1, "its own time stamp was not seen"


def test_the_upper_halves_of_registers_are_not_taken_for_used(recorder, tmp_path):
    """Each change between SSE and AVX instructions would cost a hundred times what it should: behind the first call of a function, which
    the loader resolves, and behind a handler."""
    (tmp_path / "halves.c").write_text("""
        #include <signal.h>
        #include <stdio.h>
        #include <unistd.h>
        static unsigned used(void) {  // AVX, and the upper half of AVX-512
          unsigned low, high;
          __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
          return low & 0x44;
        }
        static void handle(int signal) { (void)signal; }
        int main(void) {
          unsigned start = used(), handled;
          signal(SIGUSR1, handle);
          raise(SIGUSR1);
          handled = used();
          getppid();
          return printf("%x %x %x\\n", start, handled, used()) < 0;
        }
    """)
    subprocess.run(["/usr/bin/cc", "-O1", "-Wl,-z,lazy", "-o", tmp_path / "halves", tmp_path / "halves.c"], check=True)
    alone = subprocess.run([tmp_path / "halves"], capture_output=True, text=True)
    if alone.returncode:
        pytest.skip("machine: the processor does not tell what of its state is in use")
    recording = recorder.record([tmp_path / "halves"], name="it")
    assert (recording.returncode, recording.stdout) == (0, alone.stdout)
    recorder.verify(recording)
