"""A span reader of a few words, made on the spot: its logits depend on the word alone."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = "[PAD] [UNK] [CLS] [SEP] the server listens on port 6379 . forty".split()
LIKELY_START = {"[CLS]": 1.0, "port": 4.0, "6379": 3.0, "forty": 9.0}
LIKELY_END = {"[CLS]": 1.0, "6379": 5.0, "forty": 9.0}


def make_reader(folder, outputs=("start_logits", "end_logits"), name="model.onnx"):
    """A model whose logits depend on the word alone, as files of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(folder / "tokenizer.json"))
    tables = [
        np.array([logits.get(word, -2.0) for word in WORDS], dtype=np.float32)
        for logits in (LIKELY_START, LIKELY_END)
    ]
    nodes = [
        helper.make_node("Gather", [f"table {output}", "input_ids"], [output]) for output in outputs
    ]
    graph = helper.make_graph(
        nodes,
        "reader",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, [1, "tokens"])
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, [1, "tokens"]) for o in outputs],
        [numpy_helper.from_array(t, f"table {o}") for t, o in zip(tables, outputs, strict=False)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / name).parent.mkdir(exist_ok=True)
    onnx.save(model, str(folder / name))
    return folder
