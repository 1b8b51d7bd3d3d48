"""The life of a worker: from the module to the end of the job."""

import faulthandler
import logging
import os
import threading

import keras
import tensorflow as tf

from elastic_keras.cluster.exits import end_now
from elastic_keras.config import JobConfig
from elastic_keras.monitoring.projector_options import chosen_tables
from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker import callbacks as job_callbacks
from elastic_keras.worker.batches import unpack
from elastic_keras.worker.client import PsClient
from elastic_keras.worker.exported_model import ExportedModel
from elastic_keras.worker.failures import at_the_start
from elastic_keras.worker.heartbeat import Heartbeat
from elastic_keras.worker.job_data import JobData
from elastic_keras.worker.master_client import MasterClient
from elastic_keras.worker.model import PreparedModel, prepare
from elastic_keras.worker.pipeline import Outcome, Pipeline
from elastic_keras.worker.predicting import Predicting
from elastic_keras.worker.stats import WorkerStats
from elastic_keras.worker.step import Steps
from elastic_keras.worker.watchdog import Watchdog
from elastic_keras.worker.window import window
from elastic_keras.worker.work import ModelWork
from elastic_keras.zoo.module import ZooModule, load

_LOGGER = logging.getLogger("elastic_keras.worker")
# Time that a worker which hangs takes to say goodbye.
_GOODBYE_SECONDS = 2.0


class Worker:
    """Joins the job, builds the model, works until the job is over.

    Args:
        config: The job.
        index: This worker's index.
        job_dir: The job directory.
        token: The job's token.
    """

    def __init__(
        self, config: JobConfig, index: int, job_dir: str, token: str = ""
    ) -> None:
        self._config = config
        self._index = index
        self._job_dir = job_dir
        self._token = token
        self._stats = WorkerStats()
        self._master: MasterClient | None = None
        self._heartbeat: Heartbeat | None = None
        # What heartbeats say is for the pipeline; before there is one, the
        # newest word is kept.
        self._lock = threading.Lock()
        self._present: tuple[ModelWork, Pipeline] | None = None
        self._word = master_pb2.HeartbeatReply()
        self._error: RpcError | None = None
        self._watchdog = Watchdog(
            config.cluster.step_timeout_secs, self._hung, self._slow
        )

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
        training = config.command == "train"
        zoo = load(config.model, training=training)
        # Callbacks belong to training.
        callbacks = job_callbacks.check(zoo.callbacks()) if training else []
        self._watchdog.start()
        with self._watchdog.watch("custom_model()"):
            model = self._model(zoo)
        reply = self._join(bool(callbacks))
        if reply is None:
            return
        data = JobData(config, zoo, len(config.ps_addresses))
        steps = self._prepare(zoo, model, data, reply.sample)
        prepared = steps.prepared
        metric = config.training.early_stopping_metric
        steps.evaluation_metrics.require(metric.removeprefix("val_"))
        # The master writes them at the end; a wrong name is told now.
        chosen_tables(
            config.monitoring.projector_tables,
            {table.name: table.dim for table in prepared.signature.tables},
        )
        data.serve(prepared, steps)
        client = self._join_shards(prepared, steps)
        work = ModelWork(
            config,
            prepared,
            steps,
            data,
            client,
            self._stats,
            self._watchdog,
            self._predicting(zoo, model),
            self._summaries,
        )
        if callbacks:
            work.use_callbacks(callbacks)
        try:
            while self._work(work) is Outcome.LOST:
                _LOGGER.warning("The master lost this worker: joining again")
                if self._join(bool(callbacks)) is None:
                    return
                client.join()
        finally:
            work.close()

    def _model(self, zoo: ZooModule) -> keras.Model:
        if self._config.export_dir:
            return ExportedModel(self._config.export_dir)
        return zoo.custom_model()

    @property
    def _summaries(self) -> str:
        """Folder of this worker's TensorBoard run.

        Each worker may become the chief, and of several files of a run
        TensorBoard reads one after the other.
        """
        run = f"worker_{self._index}"
        return os.path.join(self._job_dir, "summaries", run)

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

    def _hung(self, what: str, seconds: float) -> None:
        """Ends this process, whose main thread cannot be interrupted."""
        _LOGGER.error(
            "This worker is at %s for %.0f s: it ends, to be started again "
            "(see --step_timeout_secs). What its threads do:",
            what,
            seconds,
        )
        faulthandler.dump_traceback(all_threads=True)
        self.leave(_GOODBYE_SECONDS)
        end_now()

    def _slow(self, what: str, seconds: float) -> None:
        """Says what the whole job may be waiting for."""
        _LOGGER.warning(
            "This worker is at %s for %.0f s; the job goes on when that is "
            "over (see --step_timeout_secs)",
            what,
            seconds,
        )

    def _join(self, has_callbacks: bool) -> master_pb2.WorkerJoinReply | None:
        master = MasterClient(
            self._config.master_address,
            index=self._index,
            job_id=self._config.job_id,
            wire=self._config.wire,
            token=self._token,
        )
        reply = master.join(has_callbacks=has_callbacks)
        if reply is None:
            return None
        self._master = master
        with self._lock:
            self._word = master_pb2.HeartbeatReply(chief=reply.chief)
        # At once: to build a model may take longer than the master waits.
        self._heartbeat = Heartbeat(
            master,
            self._stats,
            seconds=self._config.cluster.heartbeat_secs,
            heard=self._heard,
            failed=self._failed,
        )
        self._heartbeat.start()
        _LOGGER.info("Joined as worker %d", reply.worker)
        return reply

    def _heard(self, reply: master_pb2.HeartbeatReply) -> None:
        with self._lock:
            self._word = reply
            self._pass_on()

    def _failed(self, error: RpcError) -> None:
        with self._lock:
            self._error = error
            self._pass_on()

    def _pass_on(self) -> None:
        """Tells the pipeline what the newest heartbeat said."""
        if self._present is None:
            return
        work, pipeline = self._present
        word = self._word
        if self._error is not None:
            pipeline.flow.fail(self._error)
        elif word.stop:
            pipeline.end(Outcome.JOB_OVER)
        elif word.unknown:
            pipeline.end(Outcome.LOST)
        if word.stop_training:
            pipeline.stop_training()
        work.be_chief(word.chief)
        if word.workers_alive:
            pipeline.flow.window = window(
                self._config.staleness, word.workers_alive
            )

    def _prepare(
        self,
        zoo: ZooModule,
        model: keras.Model,
        data: JobData,
        sample: master_pb2.RecordRange,
    ) -> Steps:
        training = self._config.command == "train"
        watch = self._watchdog.watch
        try:
            with watch("reading the first batch of records"):
                batch = data.sample(sample)
            with watch("building the model"):
                prepared = prepare(
                    model,
                    zoo.loss,
                    zoo.optimizer() if training else None,
                    zoo.eval_metrics_fn,
                    sample_batch=batch,
                    seed=self._config.model.seed,
                    threshold_bytes=(
                        self._config.model.embedding_threshold_bytes
                    ),
                    features_spec=unpack(data.spec).features,
                )
                steps = Steps(prepared)
                steps.try_metrics(batch)
                return steps
        except Exception as error:
            raise at_the_start(error, data.spec) from error

    def _predicting(
        self, zoo: ZooModule, model: keras.Model
    ) -> Predicting | None:
        if self._config.command != "predict":
            return None
        return Predicting(
            job_dir=self._job_dir,
            worker=self._index,
            processor=zoo.prediction_outputs_processor(),
            to_file=bool(self._config.output.output),
            output_names=list(getattr(model, "output_names", None) or []),
        )

    def _join_shards(self, prepared: PreparedModel, steps: Steps) -> PsClient:
        signature = prepared.signature
        if self._config.command != "train":
            signature = signature.for_reading()
        client = PsClient(
            self._config.ps_addresses,
            signature,
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
        with self._lock:
            self._present = work, pipeline
            self._pass_on()
        try:
            return pipeline.run()
        finally:
            with self._lock:
                self._present = None
            if self._heartbeat is not None:
                self._heartbeat.stop()
