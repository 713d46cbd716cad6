/* The published data sets. A new one of the same form is one entry here and one name in spmd_dataset_names. */
#include "models/data/registry.h"
#include <stddef.h>
#include <string.h>

#define TRAIN_IMAGES "train-images-idx3-ubyte.gz"
#define TRAIN_LABELS "train-labels-idx1-ubyte.gz"
#define TEST_IMAGES "t10k-images-idx3-ubyte.gz"
#define TEST_LABELS "t10k-labels-idx1-ubyte.gz"

static const spmd__data_source sources[] = {
    {
        .name = "fashion-mnist",
        .train_images = {TRAIN_IMAGES, 26421880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"},
        .train_labels = {TRAIN_LABELS, 29515, "25c81989df183df01b3e8a0aad5dffbe"},
        .test_images = {TEST_IMAGES, 4422102, "bef4ecab320f06d8554ea6380940ec79"},
        .test_labels = {TEST_LABELS, 5148, "bb300cfdad3c16e7a12a480ee83cd310"},
        .mirrors = {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"},
        .rows = 28,
        .columns = 28,
        .classes = 10,
    },
    {
        .name = "mnist",
        .train_images = {TRAIN_IMAGES, 9912422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"},
        .train_labels = {TRAIN_LABELS, 28881, "d53e105ee54ea40749a09fcbcd1e9432"},
        .test_images = {TEST_IMAGES, 1648877, "9fb629c4189551a2d022fa330f9573f3"},
        .test_labels = {TEST_LABELS, 4542, "ec29112dd5afa0611ce80d1b7f02629c"},
        .mirrors = {"https://storage.googleapis.com/cvdf-datasets/mnist/",
                    "https://ossci-datasets.s3.amazonaws.com/mnist/"},
        .rows = 28,
        .columns = 28,
        .classes = 10,
    },
    {
        /* The first 30000 training images of MNIST: nobody publishes it in this form, so it has no mirror. */
        .name = "mnist-30k",
        .train_images = {TRAIN_IMAGES, 4848262, "8e4534d0fb90fec61bb4743687f61226"},
        .train_labels = {TRAIN_LABELS, 14746, "dae9507cfb123c4cf18d82f3693fbcfd"},
        .test_images = {TEST_IMAGES, 1648877, "9fb629c4189551a2d022fa330f9573f3"},
        .test_labels = {TEST_LABELS, 4542, "ec29112dd5afa0611ce80d1b7f02629c"},
        .rows = 28,
        .columns = 28,
        .classes = 10,
    },
};

const spmd__data_source *spmd__data_source_find(const char *name)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (strcmp(sources[i].name, name) == 0)
            return &sources[i];
    return NULL;
}
