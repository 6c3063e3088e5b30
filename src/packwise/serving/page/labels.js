// The names in the records, in plain words.

export const REASONS = {
  below_quality: ["too short", "Too short, and shares no words with the question."],
  duplicate_of: ["duplicate", "Says the same as a better passage."],
  merged_into: ["already included", "All its text is part of another passage."],
  per_document_cap: ["article limit", "Its article already has the maximum number of passages."],
  per_section_cap: ["section limit", "Its section already has the maximum number of passages."],
  low_novelty: ["nothing new", "Too similar to a passage in the context."],
  low_value: ["low value", "Adds too little for the tokens it needs."],
  over_budget: ["over budget", "Does not fit into the token budget."],
  other_articles: ["other article", "Its article or section was not selected."],
  same_text: ["same text", "The same text is stored twice."],
  gated: ["held back", "The confidence was below the threshold, so nothing was packed."],
};

export const STAGES = {
  cache: ["cache", "The ranking came from the cache."],
  expansion: ["expansion", "Other phrasings of the question."],
  embed: ["embed", "The question as a vector."],
  vector: ["meaning", "Passages with a similar meaning."],
  keyword: ["keywords", "Passages that share its words (BM25)."],
  complete: ["complete", "Each search scores what only the other found."],
  phrasings: ["phrasings", "The other phrasings, searched as well."],
  fusion: ["fusion", "Both lists are combined."],
  fetch: ["fetch", "The passages are read; duplicates are removed."],
  cross_encoder: ["cross-encoder", "Reads question and passage together."],
  graph: ["graph", "Follows names and links from the best passages."],
  mmr: ["diversity", "Prefers passages that differ from each other (MMR)."],
  confidence: ["confidence", "The probability that the answer was found."],
  gate: ["gate", "Is the confidence high enough to answer?"],
  documents: ["articles", "The best articles, and a few sections of each."],
  packing: ["packing", "Passages are chosen to fit the budget."],
  few_shot: ["examples", "Examples for the language model."],
  synthesis: ["writing", "The language model writes."],
  extract: ["sentences", "The sentences that answer the question are selected."],
  knowledge: ["names", "Names and facts in the passages."],
};

export const COLUMNS = {
  vector: "meaning",
  keyword: "keywords",
  fusion: "fusion",
  cross_encoder: "cross-enc.",
  graph: "graph",
  final: "final",
};

export const SCORES = {
  vector: "cosine similarity of the embeddings",
  similarity: "the cosine on a common scale",
  bm25: "BM25",
  keyword: "BM25 as a share of its upper bound",
  combined: "weighted average of vector and keyword",
  rrf: "reciprocal ranks",
  cross: "cross-encoder score",
  graph: "added by graph ranking",
  final: "the final score, which orders the list",
};

/** A stage's notes as one short line. */
export function stageNote(stage) {
  const { name } = stage;
  if (name === "vector" || name === "keyword") return `${stage.found} found`;
  if (name === "complete") return `${stage.rescored} rescored`;
  if (name === "fusion") return `${stage.candidates}, at ${stage.weights.map((w) => w.toFixed(2)).join(" : ")}`;
  if (name === "cross_encoder") return `${stage.read} read`;
  if (name === "graph") return stage.held_back ? "held back" : stage.bonuses ? `${stage.bonuses.length} raised` : "";
  if (name === "confidence") return stage.probability === undefined || stage.probability === null ? "" : `${Math.round(stage.probability * 100)}% likely`;
  if (name === "gate") return stage.passed ? `${stage.confidence.toFixed(2)} ≥ ${stage.threshold}` : `${stage.confidence.toFixed(2)} < ${stage.threshold}`;
  if (name === "documents") return `${stage.articles} articles, ${stage.passages} passages`;
  if (name === "packing") return `${stage.tokens} of ${stage.budget} tokens`;
  if (name === "synthesis") return stage.model ?? "";
  if (name === "extract") return stage.sentences === undefined ? "" : stage.sentences === 1 ? "1 sentence" : `${stage.sentences} sentences`;
  if (name === "expansion") return `${(stage.alternatives ?? []).length} phrasings`;
  if (name === "cache") return stage.hit ? "from the cache" : "";
  return "";
}
