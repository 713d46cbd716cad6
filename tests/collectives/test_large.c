/* Every collective on blocks that are too large for a mailbox, and so take the other way (collectives/host/select.c).
 */
#include "tests/collectives/reference.h"

static const struct {
    const char *mesh, *axes, *groups;
} places[] = {
    {"x=2", "x", NULL},
    {"x=3", "x", NULL},
    {"x=2,y=2", "y,x", NULL},
    {"x=4", "x", "3,0;2,1"},
};
enum { PLACES = sizeof places / sizeof places[0], KINDS = BROADCAST + 1 };

START_TEST(equals_the_definition)
{
    coll_case c = {.kind = (kind)(_i / PLACES), .large = true};
    c.mesh = places[_i % PLACES].mesh;
    c.axes = places[_i % PLACES].axes;
    c.groups = c.kind <= EXCHANGE ? places[_i % PLACES].groups : NULL;
    bool moves = c.kind == GATHER || c.kind == SCATTER || c.kind == EXCHANGE;
    for (int option = 0; option < (moves ? 6 : 1); option++) {
        c.dim = option % 3;
        c.concat = (option + 1) % 3;
        c.tiled = option / 3;
        check_case(&c);
    }
}
END_TEST

SPMD_TEST_MAIN("large", tcase_add_loop_test(tc, equals_the_definition, 0, KINDS *PLACES);)
