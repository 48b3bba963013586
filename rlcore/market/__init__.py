"""Market data: bars from files or synthetic, validated once, kept as a memory-mapped store."""

from rlcore.market.build_store import build_store, check_source
from rlcore.market.features import HistoryFeatures, history_features
from rlcore.market.markov_signal import MarkovSignal
from rlcore.market.quality import IncompleteDay, InstrumentQuality, QualityReport
from rlcore.market.schema import BarFormat
from rlcore.market.store import MarketStore
from rlcore.market.synthetic import SyntheticMarket, build_synthetic

__all__ = [
    "BarFormat",
    "HistoryFeatures",
    "IncompleteDay",
    "InstrumentQuality",
    "MarketStore",
    "MarkovSignal",
    "QualityReport",
    "SyntheticMarket",
    "build_store",
    "build_synthetic",
    "check_source",
    "history_features",
]
