"""Training: vessel and trainer, callbacks, checkpoints, loggers; and a training or a backtest as one call."""

from rlcore.training.callbacks import AFTER_CHECKPOINT, BEFORE_CHECKPOINT, CHECKPOINT, Callback, EarlyStopping, MetricsWriter
from rlcore.training.checkpoint import checkpoints_in, latest_valid_checkpoint, read_checkpoint, write_checkpoint
from rlcore.training.checkpoint_writer import CheckpointWriter
from rlcore.training.log_levels import LogLevel, level_of
from rlcore.training.loggers import ConsoleLogger, CsvLogger, Logger
from rlcore.training.one_call import Trained, backtest, train
from rlcore.training.parquet_logger import ParquetLogger
from rlcore.training.results import FitResult, TestResult
from rlcore.training.tensorboard_logger import TensorBoardLogger
from rlcore.training.trainer import Trainer
from rlcore.training.vessel import TrainingVessel

__all__ = [
    "AFTER_CHECKPOINT",
    "BEFORE_CHECKPOINT",
    "CHECKPOINT",
    "Callback",
    "CheckpointWriter",
    "ConsoleLogger",
    "CsvLogger",
    "EarlyStopping",
    "FitResult",
    "LogLevel",
    "Logger",
    "MetricsWriter",
    "ParquetLogger",
    "TensorBoardLogger",
    "TestResult",
    "Trained",
    "Trainer",
    "TrainingVessel",
    "backtest",
    "checkpoints_in",
    "latest_valid_checkpoint",
    "level_of",
    "read_checkpoint",
    "train",
    "write_checkpoint",
]
