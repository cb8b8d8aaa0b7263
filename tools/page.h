/* page: what the HTML pages of vitrine share. They hold their data in <script> elements of JSON. */
#ifndef TOOLS_PAGE_H
#define TOOLS_PAGE_H

#include <stdio.h>

/*
 * JSON for inside a <script>: '<', which stands in strings alone, becomes \u003c, so that no text
 * can end the element. The file's owner looks for errors.
 */
void page_print_json(const char *json, FILE *file);

#endif
