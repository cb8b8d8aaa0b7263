/* evaluate_report: the page of `vitrine evaluate --report`; see evaluate.h. */
#include <cjson/cJSON.h>
#include <string.h>

#include "tools/evaluate.h"
#include "tools/report.h"

enum status evaluate_report_open(struct evaluate *e) {
    const struct evaluate_options *o = &e->o;
    if (!o->report) return ST_OK;
    if (o->report_data) TRY(dataset_open(o->report_data, NULL, &e->report_data));
    return output_open(&e->report, o->report);
}

/* Whether --report-data is what the rows are of, by its identity. */
static bool data_is_theirs(const struct evaluate *e) {
    cJSON *head = cJSON_Parse(e->head);
    const char *theirs = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(head, "dataset"));
    const bool same = theirs && strcmp(theirs, dataset_identity(e->report_data)) == 0;
    cJSON_Delete(head);
    return same;
}

/* The images went by long ago, or in another run: the dataset is gone through once more. */
static enum status find_pictures(struct evaluate *e, struct report_pictures *out) {
    const struct dataset_options options = {.labels = e->o.labels};
    const struct image_options image = run_image_options(&e->o.run);
    if (e->o.merge && e->report_data && !data_is_theirs(e))
        return report_pictures_missing(out, &e->evaluation,
                                       "the dataset of --report-data is not the one of the rows");
    if (!e->o.merge && dataset_open(e->path, &options, &e->report_data) != ST_OK)
        return report_pictures_missing(out, &e->evaluation, fail_message());
    return report_pictures_find(out, &e->evaluation, e->report_data, &image);
}

enum status evaluate_report(struct evaluate *e, const struct evaluation_about *about) {
    const char *devices[DEVICES_MOST];
    struct report_pictures pictures = {0};
    struct report report = {.evaluation = &e->evaluation,
                            .about = about,
                            .command = e->command,
                            .rows = e->head,
                            .architecture = e->model.info.architecture,
                            .parameters = e->model.parameters,
                            .devices = devices,
                            .device_count = e->o.merge ? 0 : e->devices.count,
                            .finished = time(NULL),
                            .pictures = &pictures};
    enum status st;
    if (!e->o.report) return ST_OK;
    for (int i = 0; i < e->devices.count; i++)
        devices[i] = backend_describe(e->devices.backend[i]);
    st = find_pictures(e, &pictures);
    if (st == ST_OK) st = report_write(&report, e->report.file);
    report_pictures_release(&pictures);
    return st;
}
