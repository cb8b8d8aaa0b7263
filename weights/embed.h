/*
 * embed: a file of the tree in the read-only data of the program, put there by the assembler, with
 * a zero byte behind it. An object that embeds a file depends on it in the Makefile.
 */
#ifndef WEIGHTS_EMBED_H
#define WEIGHTS_EMBED_H

#if defined(__APPLE__)
#error "embedding needs an ELF assembler"
#endif

/* Declares and fills symbol[] and symbol##_end[]; `path` is relative to the folder of the build. */
#define EMBED(symbol, path)                                                                        \
    __asm__(".section .rodata\n.balign 64\n" #symbol ":\n.incbin \"" path "\"\n" #symbol           \
            "_end:\n.byte 0\n.text\n");                                                            \
    extern const unsigned char symbol[], symbol##_end[]

#endif
