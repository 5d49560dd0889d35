        .text
        .globl  twice
        .type   twice, @function
twice:
        leaq    (%rdi,%rdi), %rax
        ret
        .size   twice, .-twice
        .section .note.GNU-stack,"",@progbits
