/*
 * vitrine: Vision Transformers for image classification. This file only finds the command.
 */
#include <stdio.h>
#include <string.h>

#include "datasets/image.h"
#include "kernels/ops.h"
#include "weights/temporary.h"
#include "tools/cli.h"
#include "weights/models/embedded.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
    const char *does;
} commands[] = {
    {"classify", cmd_classify, "class predictions for images"},
    {"evaluate", cmd_evaluate, "accuracy and more over a labelled dataset"},
    {"features", cmd_features, "embeddings of images, as .npy, .h5 or .csv"},
    {"attention", cmd_attention, "rollout and raw attention maps of images, as arrays"},
    {"convert", cmd_convert, "a public checkpoint to a vitrine model"},
    {"pull", cmd_pull, "downloads an official checkpoint and makes it a vitrine model"},
    {"inspect", cmd_inspect, "what is in a model, and whether it still computes the same"},
    {"bench", cmd_bench, "how fast a model runs here"},
};

static void usage(FILE *file) {
    fputs("Usage: vitrine COMMAND [OPTION]... [ARGUMENT]...\n"
          "Image classification with Vision Transformers.\n\nCommands:\n",
          file);
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].does);
    fputs("\n'vitrine COMMAND --help' lists a command's options, 'vitrine --version' what this\n"
          "build reads and runs on.\n",
          file);
}

/* A device that opens says what it is; else why it does not. */
static void show_device(const char *device) {
    struct backend_options options = {.device = device};
    struct backend *backend = NULL;
    if (backend_open(&options, &backend) == ST_OK)
        printf("device: %s\n", backend_describe(backend));
    else
        printf("%s\n", fail_message()); /* "device cuda: ..." */
    backend_close(backend);
}

static void version(void) {
    const char *name;
    printf("vitrine %s\n", VERSION);
    printf("images: %s\n", image_formats());
    show_device("cpu");
    show_device("cuda");
    for (size_t i = 0; (name = embedded_model_name(i)); i++)
        printf("model:  %s (embedded)\n", name);
}

/* The exit status of what was printed to stdout: a reader must get all of it. */
static int printed(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
    cli_say("vitrine: stdout could not be written");
    return 1;
}

static int unknown(const char *name) {
    const char *names[COUNT_OF(commands)], *nearest;
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        names[i] = commands[i].name;
    nearest = cli_nearest(name, names, COUNT_OF(commands));
    if (nearest)
        cli_say("vitrine: unknown command '%s', did you mean '%s'?", name, nearest);
    else
        cli_say("vitrine: unknown %s '%s'", name[0] == '-' ? "option" : "command", name);
    cli_say("see 'vitrine --help'");
    return 2;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : NULL;
    temporary_watch();
    if (!name) {
        usage(stderr);
        return 2;
    }
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (strcmp(name, commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        usage(stdout);
        return printed();
    }
    if (strcmp(name, "--version") == 0) {
        version();
        return printed();
    }
    return unknown(name);
}
