/* The report as a browser shows it: Chromium without a window takes a picture of the page, light and dark. Looked for
 * are the page's own background and, in the pictures, the green frames and the blue of the confusion matrix. */
#include "tests/cli/run_program.h"
#ifdef SPMD_HAVE_PNG
#include <png.h>

enum { WIDTH = 1000, HEIGHT = 9000 };

static void screenshot(const char *name, const char *more)
{
    char command[1024];
    snprintf(
        command, sizeof command,
        "timeout 120 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir=%s/browser %s "
        "--window-size=%d,%d --screenshot=%s/%s file://%s/lesson/report.html >/dev/null 2>&1",
        folder, more, WIDTH, HEIGHT, folder, name, folder);
    ck_assert_msg(system(command) == 0, "failed: %s", command);
}

static uint8_t *pixels(const char *name, png_image *image)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    *image = (png_image){.version = PNG_IMAGE_VERSION};
    ck_assert_msg(png_image_begin_read_from_file(image, path), "%s: %s", path, image->message);
    image->format = PNG_FORMAT_RGB;
    uint8_t *rgb = malloc(PNG_IMAGE_SIZE(*image));
    ck_assert(rgb && png_image_finish_read(image, NULL, rgb, 0, NULL));
    return rgb;
}

static int count_near(const uint8_t *rgb, size_t n, int r, int g, int b)
{
    int found = 0;
    for (size_t i = 0; i < n; i++)
        found += abs(rgb[3 * i] - r) < 12 && abs(rgb[3 * i + 1] - g) < 12 && abs(rgb[3 * i + 2] - b) < 12;
    return found;
}

START_TEST(a_browser_shows_it)
{
    static const char *const modes[] = {"", "--blink-settings=preferredColorScheme=0"};
    static const int background[2][3] = {{255, 255, 255}, {0x14, 0x18, 0x1d}};
    png_image image;
    ended e = run("lesson training --quick --dataset synthetic --steps 60 --width 32 --json --out %s/lesson");
    ck_assert_msg(e.code == 0, "exit code %d: %s", e.code, e.err);
    end_free(&e);
    screenshot("page.png", modes[_i]);
    uint8_t *rgb = pixels("page.png", &image);
    size_t n = (size_t)image.width * image.height;
    ck_assert_int_eq(image.width, WIDTH);
    for (int k = 0; k < 3; k++)
        ck_assert_int_eq(rgb[k], background[_i][k]);
    ck_assert_int_gt(count_near(rgb, n, 0x2e, 0x8b, 0x3d), 1000); /* predictions: photographs keep their colours */
    if (_i == 0)
        ck_assert_int_gt(count_near(rgb, n, 0x1d, 0x5c, 0x9c), 1000); /* confusion; the curve, by its lines */
    free(rgb);
}
END_TEST

int main(void)
{
    if (!program_is_there("chromium") || !program_is_there("gnuplot"))
        return spmd_test_skip("no chromium, or no gnuplot: nobody looked at the report's page");
    Suite *suite = suite_create("render");
    TCase *tc = tcase_create("render");
    tcase_set_timeout(tc, 5 * spmd_test_timeout());
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_loop_test(tc, a_browser_shows_it, 0, 2);
    suite_add_tcase(suite, tc);
    return spmd_test_exit(srunner_create(suite));
}
#else
int main(void)
{
    return spmd_test_skip("built without libpng: nobody looked at the report's page");
}
#endif
