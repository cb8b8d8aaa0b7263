/*
 * canvas_font: the letters of canvas_write, ASCII 32 to 126 and a box for all others. A letter is 9
 * rows of up to 5 columns, the last two rows below the line; its width is that of its ink.
 */
#include "tools/canvas.h"

#include <math.h>
#include <string.h>

#define ACROSS 12 /* letters a band */
#define PITCH  6
#define HEIGHT 9
#define BLANK  3 /* width of a space */

/* clang-format off */
static const char *const bands[] = {
    /*       !     "     #     $     %     &     '     (     )     *     + */
    "      #     # #    # #    #   ##  #  ##   #       #   #                 ",
    "      #     # #    # #   #### ##  # #  #  #      #     #      #     #   ",
    "      #     # #   ##### # #      #  # #   #     #       #   # # #   #   ",
    "      #            # #   ###    #    #          #       #    ###  ##### ",
    "      #           #####   # #  #    # # #       #       #   # # #   #   ",
    "                   # #  ####  #  ## #  #         #     #      #     #   ",
    "      #            # #    #   #  ##  ## #         #   #                 ",
    "                                                                        ",
    "                                                                        ",
    /* ,     -     .     /     0     1     2     3     4     5     6     7 */
    "                      #  ###    #    ###   ###     #  #####   ##  ##### ",
    "                      # #   #  ##   #   # #   #   ##  #      #        # ",
    "                     #  #   # # #       #     #  # #  ####  #        #  ",
    "      ####          #   #   #   #      #    ##  #  #      # ####     #  ",
    "                   #    #   #   #     #       # #####     # #   #   #   ",
    "                  #     #   #   #    #    #   #    #  #   # #   #   #   ",
    " #          #     #      ###  ##### #####  ###     #   ###   ###    #   ",
    " #                                                                      ",
    "#                                                                       ",
    /* 8     9     :     ;     <     =     >     ?     @     A     B     C */
    " ###   ###                 #        #      ###   ###   ###  ####   ###  ",
    "#   # #   #               #          #    #   # #   # #   # #   # #   # ",
    "#   # #   # #      #     #    ####    #       # # ### #   # #   # #     ",
    " ###   ####             #              #     #  # # # ##### ####  #     ",
    "#   #     #              #    ####    #     #   # ### #   # #   # #     ",
    "#   #    #  #      #      #          #          #     #   # #   # #   # ",
    " ###   ##          #       #        #       #    ###  #   # ####   ###  ",
    "                  #                                                     ",
    "                                                                        ",
    /* D     E     F     G     H     I     J     K     L     M     N     O */
    "####  ##### #####  ###  #   # ###     ### #   # #     #   # #   #  ###  ",
    "#   # #     #     #   # #   #  #       #  #  #  #     ## ## ##  # #   # ",
    "#   # #     #     #     #   #  #       #  # #   #     # # # ##  # #   # ",
    "#   # ####  ####  # ### #####  #       #  ##    #     # # # # # # #   # ",
    "#   # #     #     #   # #   #  #       #  # #   #     #   # #  ## #   # ",
    "#   # #     #     #   # #   #  #    #  #  #  #  #     #   # #  ## #   # ",
    "####  ##### #      ###  #   # ###    ##   #   # ##### #   # #   #  ###  ",
    "                                                                        ",
    "                                                                        ",
    /* P     Q     R     S     T     U     V     W     X     Y     Z     [ */
    "####   ###  ####   #### ##### #   # #   # #   # #   # #   # ##### ###   ",
    "#   # #   # #   # #       #   #   # #   # #   # #   # #   #     # #     ",
    "#   # #   # #   # #       #   #   # #   # #   #  # #   # #     #  #     ",
    "####  #   # ####   ###    #   #   # #   # # # #   #     #     #   #     ",
    "#     # # # # #       #   #   #   #  # #  # # #  # #    #    #    #     ",
    "#     #  #  #  #      #   #   #   #  # #  ## ## #   #   #   #     #     ",
    "#      ## # #   # ####    #    ###    #   #   # #   #   #   ##### ###   ",
    "                                                                        ",
    "                                                                        ",
    /* \     ]     ^     _     `     a     b     c     d     e     f     g */
    "#     ###     #         #           #               #         ##        ",
    "#       #    # #         #          #               #        #          ",
    " #      #   #   #              ###  ####   ###   ####  ###  ####   #### ",
    "  #     #                         # #   # #     #   # #   #  #    #   # ",
    "   #    #                      #### #   # #     #   # #####  #    #   # ",
    "    #   #                     #   # #   # #     #   # #      #    #   # ",
    "    # ###                      #### ####   ###   ####  ####  #     #### ",
    "                  #####                                               # ",
    "                                                                   ###  ",
    /* h     i     j     k     l     m     n     o     p     q     r     s */
    "#     #       #   #     #                                               ",
    "#                 #     #                                               ",
    "####  #       #   #  #  #     ####  ####   ###  ####   #### # ##   ###  ",
    "#   # #       #   # #   #     # # # #   # #   # #   # #   # ##    #     ",
    "#   # #       #   ##    #     # # # #   # #   # #   # #   # #      ##   ",
    "#   # #       #   # #   #     # # # #   # #   # #   # #   # #        #  ",
    "#   # #       #   #  #   #    # # # #   #  ###  ####   #### #     ###   ",
    "              #                                 #         #             ",
    "            ##                                  #         #             ",
    /* t     u     v     w     x     y     z     {     |     }     ~     (another) */
    " #                                          #   #     #           ##### ",
    " #                                         #    #      #          #   # ",
    "####  #   # #   # #   # #   # #   # ####   #    #      #     #  # #   # ",
    " #    #   # #   # # # #  # #  #   #    #  #     #       #   # # # #   # ",
    " #    #   #  # #  # # #   #   #   #  ##    #    #      #    #  #  #   # ",
    " #    #   #  # #  # # #  # #  #   # #      #    #      #          #   # ",
    "  ##   ####   #    # #  #   #  #### ####    #   #     #           ##### ",
    "                                  #                                     ",
    "                               ###                                      ",
};
/* clang-format on */

static bool ink(int letter, int row, int column) {
    return bands[letter / ACROSS * HEIGHT + row][letter % ACROSS * PITCH + column] == '#';
}

/* The columns up to the last with ink. */
static int letter_width(int letter) {
    for (int column = PITCH - 1; column >= 0; column--)
        for (int row = 0; row < HEIGHT; row++)
            if (ink(letter, row, column)) return column + 1;
    return BLANK;
}

/* The letter of the character at *text, which moves on to the next. */
static int letter_next(const char **text) {
    const size_t length = utf8_length(*text, strlen(*text));
    const unsigned char first = (unsigned char)**text;
    *text += length ? length : 1;
    return (first >= ' ' && first < 127 ? first : 127) - ' ';
}

int canvas_text_width(const char *text, int scale) {
    int width = 0;
    while (*text)
        width += letter_width(letter_next(&text)) + 1;
    return width ? (width - 1) * scale : 0;
}

/* A dot of the font: column right of, and row below, the text's own top left. */
static struct pixel_box dot_box(const struct canvas_text *style, int x, int y, int column,
                                int row) {
    const int s = style->scale;
    const int left = style->upward ? x + row * s : x + column * s;
    const int top = style->upward ? y - (column + 1) * s : y + row * s;
    return (struct pixel_box){left, top, left + s, top + s};
}

void canvas_write(struct image *canvas, int x, int y, const struct canvas_text *style,
                  const char *text) {
    const int length = canvas_text_width(text, style->scale);
    const int high = CANVAS_CAPITAL * style->scale;
    int at = 0;
    x -= (int)lround(style->anchor_x * (style->upward ? high : length));
    y -= (int)lround(style->anchor_y * (style->upward ? length : high));
    if (style->upward) y += length; /* the text begins below */
    while (*text) {
        const int letter = letter_next(&text), width = letter_width(letter);
        for (int row = 0; row < HEIGHT; row++)
            for (int column = 0; column < width; column++)
                if (ink(letter, row, column))
                    canvas_fill(canvas, dot_box(style, x, y, at + column, row), style->color, 1);
        at += width + 1;
    }
}
