/*
 * pull: an official checkpoint into the model folder. All of it happens in FOLDER/NAME.part: the
 * download, its checksum, the conversion; then the finished model gets its name FOLDER/NAME.h5.
 */
#ifndef TOOLS_PULL_H
#define TOOLS_PULL_H

#include "tools/recipe.h"
#include "weights/catalog.h"

struct pull_options {
    const char *from; /* an address, a file or a folder instead of the catalog's address; or NULL */
    const char *sha256;   /* 8 to 64 digits of the file's hash instead of the catalog's; or NULL */
    struct recipe recipe; /* over what the catalog says */
    double timeout;       /* seconds, as in struct download */
    int retries;
    bool force;    /* pull what is there already */
    bool keep;     /* a checkpoint that was downloaded, as FOLDER/NAME.checkpoint */
    bool quiet;    /* no word but errors */
    bool progress; /* a line that is drawn over and over */
};

/*
 * Pulls one entry and says what it did. A model of that name that is there already is left alone
 * (ST_OK, said; ST_FORMAT when it was not made of a file of the hash that is wanted) unless forced,
 * and replaced only by a whole one. ST_IO, ST_FORMAT, ...: what came so far is kept when it can be
 * taken up, and said; a file of another hash is not.
 */
enum status pull_model(const struct catalog_entry *entry,
                       const struct pull_options *options) MUST_CHECK;

#endif
