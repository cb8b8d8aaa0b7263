/* test_torch_damage: torch's own files (tests/ref/torch_golden.py), cut or with a bit changed. */
#include "tests/torch_sample.h" // before cmocka.h, which has a macro `fail`

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#undef fail /* cmocka.h's */

static void forget_sentence(void) {
    (void)fail(ST_IO, "none");
}

/* Every cut is refused with a sentence, and none reads past the end (the sanitizers look on). */
static void test_every_cut(void **state) {
    static const char *const files[] = {"teacher",      "teacher_legacy",  "views",
                                        "views_legacy", "views_p4_legacy", "training_legacy"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        struct sample s = sample_golden(files[i]);
        for (size_t cut = 0; cut < s.size; cut++) {
            struct checkpoint c;
            uint8_t *copy = malloc(cut ? cut : 1);
            assert_non_null(copy);
            memcpy(copy, s.bytes, cut);
            forget_sentence();
            enum status st = sample_parse(copy, cut, NULL, &c);
            if (st != ST_FORMAT || strncmp(fail_message(), "file: ", 6) != 0)
                print_message("%s cut at %zu: %d, %s\n", files[i], cut, st, fail_message());
            assert_int_equal(st, ST_FORMAT);
            assert_int_equal(strncmp(fail_message(), "file: ", 6), 0);
            sample_release(&c);
            free(copy);
        }
        free(s.bytes);
    }
}

/* A bit that changed in the bytes of a tensor is noticed: of each one of the model. */
static void test_changed_bits(void **state) {
    (void)state;
    struct sample s = sample_golden("types");
    struct checkpoint c;
    size_t changed = 0;
    assert_int_equal(sample_parse(s.bytes, s.size, NULL, &c), ST_OK);
    for (size_t i = 0; i < c.count; i++) {
        const size_t at = (size_t)(c.tensors[i].data - s.bytes);
        struct checkpoint other;
        if (at >= s.size || c.tensors[i].bytes == 0) continue; /* copied, or empty */
        s.bytes[at] ^= 1;
        assert_int_equal(sample_parse(s.bytes, s.size, NULL, &other), ST_FORMAT);
        assert_non_null(strstr(fail_message(), "the checksum of storage"));
        sample_release(&other);
        s.bytes[at] ^= 1;
        changed++;
    }
    assert_true(changed > 3);
    sample_release(&c);
    free(s.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_changed_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
