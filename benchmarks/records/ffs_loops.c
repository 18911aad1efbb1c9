/* Loops around functions of the FFS library, which come by address: what is measured is the library, not its caller.
 * Each returns how many calls succeeded. */

#include <stddef.h>

typedef int decode_function(void *context, char *encoded, void *destination);
typedef int decode_in_place_function(void *context, char *encoded, void **destination);
typedef char *encode_function(void *buffer, void *format, void *record, size_t *size);
typedef int next_function(void *file);
typedef int read_function(void *file, void *destination);

size_t decode_each(decode_function *decode, void *context, char *records, size_t stride, size_t count, void *destination)
{
    size_t done = 0;
    for (size_t i = 0; i < count; i++)
        done += decode(context, records + i * stride, destination) != 0;
    return done;
}

size_t decode_each_in_place(decode_in_place_function *decode, void *context, char *records, size_t stride, size_t count,
                            void **destination)
{
    size_t done = 0;
    for (size_t i = 0; i < count; i++)
        done += decode(context, records + i * stride, destination) != 0;
    return done;
}

size_t encode_each(encode_function *encode, void *buffer, void *format, void *record, size_t count)
{
    size_t done = 0, size;
    for (size_t i = 0; i < count; i++)
        done += encode(buffer, format, record, &size) != NULL;
    return done;
}

size_t read_each(next_function *next, read_function *read, void *file, int data, void *destination)
{
    size_t done = 0;
    while (next(file) == data)
        done += read(file, destination) != 0;
    return done;
}
