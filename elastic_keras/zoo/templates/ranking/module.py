"""Will this user click on this item? A module to start from.

A line of NAME.csv holds, separated by commas and under a header, `clicked`
(1 or 0), `user` and `item` (texts of many values), `hour` (0 to 23) and
`price` (may be empty). NAME_data.py makes such lines; put your own data in
their place. In this folder:

    elastic_keras zoo check NAME.py --training_data=NAME.csv --csv_header
    elastic_keras train --model_def=NAME.py --training_data=NAME.csv \
        --validation_data=NAME_validation.csv --csv_header
"""

import keras
import tensorflow as tf

import elastic_keras as ek

# What an empty field stands for, by column; its type is the column's type.
COLUMNS = {
    "clicked": 0.0,
    "user": "",
    "item": "",
    "hour": 0,
    "price": -1.0,
}


def custom_model(dim=8, hidden=(32, 16)):
    """Builds the model. Needed.

    Arguments are set from outside: --model_params='dim=16; hidden=[64]'.
    Layers and inputs with names are easier to find in logs and files.
    """
    user = keras.Input((), dtype="int64", name="user")
    item = keras.Input((), dtype="int64", name="item")
    hour = keras.Input((), dtype="int64", name="hour")
    price = keras.Input((1,), name="price")
    # Tables on the PS shards. They have no vocabulary size: any int64 is an
    # id, and a row exists once a gradient for it was applied. With
    # optimizer=... a table has one of its own; combiner="mean" makes one
    # vector of several ids.
    users = ek.layers.Embedding(dim, name="users")(user)
    items = ek.layers.Embedding(dim, name="items")(item)
    # With so few values a layer of Keras does: it is a dense parameter. From
    # 2 MiB on (--embedding_threshold_bytes) it would become a table as well.
    hours = keras.layers.Embedding(24, 4, name="hours")(hour)
    x = keras.layers.Concatenate()([users, items, hours, price])
    for units in hidden:
        x = keras.layers.Dense(units, activation="relu")(x)
    click = keras.layers.Dense(1, activation="sigmoid", name="click")(x)
    return keras.Model(
        {"user": user, "item": item, "hour": hour, "price": price}, click
    )


# The loss. Needed: a Keras loss, or a function (labels, predictions) that
# gives a scalar or one value per example. A dict of them is one per output.
loss = keras.losses.BinaryCrossentropy()


def optimizer():
    """Makes the optimizer, which the shards run. Needed to train.

    SGD, RMSprop, Adagrad, Adadelta, Adam, AdamW, Adamax, Nadam, Ftrl or Lion.
    In a table only the rows that a batch touches move.
    """
    return keras.optimizers.Adam(0.01)


def dataset_fn(dataset, mode, metadata):
    """Turns records into examples. Needed.

    Args:
        dataset: Records, scalar strings: here a line of the file each.
        mode: ek.Mode.TRAINING, EVALUATION or PREDICTION.
        metadata: Has column_names, from the header (--csv_header), and
            minibatch_size, from the flag of that name.

    Returns:
        A dataset of (features, labels) or (features, labels, weights),
        in batches or not; for prediction, features do.
    """
    names = metadata.column_names or list(COLUMNS)
    defaults = [[COLUMNS.get(name, "")] for name in names]

    def parse(lines):
        values = tf.io.decode_csv(lines, defaults)
        columns = dict(zip(names, values, strict=True))
        features = {
            "user": _ids(columns["user"]),
            "item": _ids(columns["item"]),
            "hour": tf.cast(columns["hour"], tf.int64),
            "price": tf.math.log1p(columns["price"] + 1.0)[:, tf.newaxis],
        }
        if mode == ek.Mode.PREDICTION:
            # New data may have no labels.
            return features
        # Labels in the shape of the predictions, (batch, 1).
        return features, columns["clicked"][:, tf.newaxis]

    # Lines are parsed a batch at a time: faster than one by one.
    return dataset.batch(metadata.minibatch_size).map(parse)


def _ids(texts):
    """Returns an id for each text: no vocabulary, so new texts work, too."""
    return tf.strings.to_hash_bucket_fast(texts, 2**63 - 1)


def eval_metrics_fn():
    """Makes the metrics by name. Optional: without it there is the loss.

    Keras metrics, or functions (labels, predictions) whose mean is taken.
    """
    return {"auc": keras.metrics.AUC(), "error": _error}


def _error(labels, predictions):
    return tf.abs(labels - predictions)


# Further names, all of them optional:
#
# def callbacks():
#     """Makes Keras callbacks; their hooks run in one worker, the chief."""
#     return [keras.callbacks.LambdaCallback(on_epoch_end=print)]
#
# class prediction_outputs_processor:
#     """Takes predictions, batch after batch, in each worker."""
#
#     def process(self, predictions, worker_id):
#         print(worker_id, predictions.shape)
#
# def custom_data_reader(data_origin, records_per_task, **data_reader_params):
#     """Makes an ek.DataReader, for records that are not in local files."""
#     return MyReader(data_origin)
