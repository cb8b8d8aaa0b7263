#include "tools/page.h"

#include <string.h>

void page_print_json(const char *json, FILE *file) {
    while (*json) {
        const size_t length = strcspn(json, "<");
        fwrite(json, 1, length, file);
        json += length;
        if (*json) fputs("\\u003c", file), json++;
    }
}
