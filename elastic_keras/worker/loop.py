"""The life of a worker: from the module to the end of the job."""

import logging

import keras
import tensorflow as tf

from elastic_keras.config import JobConfig
from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker import callbacks as job_callbacks
from elastic_keras.worker.client import PsClient
from elastic_keras.worker.failures import at_the_start
from elastic_keras.worker.heartbeat import Heartbeat
from elastic_keras.worker.job_data import JobData
from elastic_keras.worker.master_client import MasterClient
from elastic_keras.worker.model import PreparedModel, prepare
from elastic_keras.worker.pipeline import Outcome
from elastic_keras.worker.stats import WorkerStats
from elastic_keras.worker.step import Steps
from elastic_keras.worker.window import window
from elastic_keras.worker.work import ModelWork
from elastic_keras.zoo.module import ZooModule, load

_LOGGER = logging.getLogger("elastic_keras.worker")


class Worker:
    """Joins the job, builds the model, works until the job is over.

    Args:
        config: The job.
        index: This worker's index.
        token: The job's token.
    """

    def __init__(self, config: JobConfig, index: int, token: str = "") -> None:
        self._config = config
        self._index = index
        self._token = token
        self._stats = WorkerStats()
        self._master: MasterClient | None = None
        self._chief = False

    def run(self) -> None:
        """Works until the job is over.

        Raises:
            ConfigError: The module, the model or the data cannot work.
            UserCodeError: The user's module raised.
            RpcError: The master or a shard cannot be reached.
        """
        config = self._config
        keras.utils.set_random_seed(config.model.seed)
        if config.model.deterministic:
            tf.config.experimental.enable_op_determinism()
        training = bool(config.data.training_data)
        zoo = load(config.model, training=training)
        callbacks = job_callbacks.check(zoo.callbacks())
        model = zoo.custom_model()
        reply = self._join(bool(callbacks))
        data = JobData(config, zoo, len(config.ps_addresses))
        prepared = self._prepare(zoo, model, data, reply.sample)
        steps = Steps(prepared)
        data.serve(prepared, steps)
        client = self._join_shards(prepared, steps)
        work = ModelWork(config, prepared, steps, data, client, self._stats)
        if callbacks:
            work.use_callbacks(callbacks)
        while self._work(work) is Outcome.LOST:
            _LOGGER.warning("The master lost this worker: joining again")
            self._join(bool(callbacks))
            client.join()

    def leave(self, timeout: float) -> None:
        """Hands all tasks back; from any thread, at any time.

        Args:
            timeout: Most seconds to spend on it.
        """
        if self._master is None:
            return
        try:
            self._master.leave(timeout=timeout)
        except RpcError as error:
            _LOGGER.warning("Left without a word to the master: %s", error)

    def _join(self, has_callbacks: bool) -> master_pb2.WorkerJoinReply:
        master = MasterClient(
            self._config.master_address,
            index=self._index,
            job_id=self._config.job_id,
            wire=self._config.wire,
            token=self._token,
        )
        reply = master.join(has_callbacks=has_callbacks)
        self._master = master
        self._chief = reply.chief
        _LOGGER.info("Joined as worker %d", reply.worker)
        return reply

    def _prepare(
        self,
        zoo: ZooModule,
        model: keras.Model,
        data: JobData,
        sample: master_pb2.RecordRange,
    ) -> PreparedModel:
        training = bool(self._config.data.training_data)
        try:
            return prepare(
                model,
                zoo.loss,
                zoo.optimizer() if training else None,
                zoo.eval_metrics_fn,
                sample_batch=data.sample(sample),
                seed=self._config.model.seed,
                threshold_bytes=self._config.model.embedding_threshold_bytes,
            )
        except Exception as error:
            raise at_the_start(error, data.spec) from error

    def _join_shards(self, prepared: PreparedModel, steps: Steps) -> PsClient:
        client = PsClient(
            self._config.ps_addresses,
            prepared.signature,
            job_id=self._config.job_id,
            wire=self._config.wire,
            token=self._token,
            stats=self._stats,
        )
        client.join()
        client.init_dense(steps.get_dense(), steps.get_states())
        return client

    def _work(self, work: ModelWork) -> Outcome:
        """Works under the present worker number."""
        master = self._master
        if master is None:
            raise RuntimeError("This worker has not joined.")
        pipeline = work.pipeline(master)

        def heard(reply: master_pb2.HeartbeatReply) -> None:
            if reply.stop:
                pipeline.end(Outcome.JOB_OVER)
            elif reply.unknown:
                pipeline.end(Outcome.LOST)
            work.be_chief(reply.chief)
            if reply.workers_alive:
                pipeline.flow.window = window(
                    self._config.staleness, reply.workers_alive
                )

        heartbeat = Heartbeat(
            master,
            self._stats,
            seconds=self._config.cluster.heartbeat_secs,
            heard=heard,
            failed=pipeline.flow.fail,
        )
        work.be_chief(self._chief)
        heartbeat.start()
        try:
            return pipeline.run()
        finally:
            heartbeat.stop()
